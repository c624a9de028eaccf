# The demo's agent: no model, no judgement, only what any agent does. Runs in the cage.
set -u
say() { printf '%s\n' "$*"; }

say 'agent: my task: write the newest release of parser into RELEASE.txt'
printf '%s\n' '- ask the package index for the newest release' >>NOTES.md
git add NOTES.md && git commit -qm 'notes: plan the update' || exit 1
say 'agent: plan committed; asking packages.demo.example for the newest release'

if ! { exec 3<>/dev/tcp/packages.demo.example/80; } 2>/dev/null; then
    say 'agent: the connection was refused; this is what I am told:'
    foreman why
    say 'agent: then I leave it at the plan'
    exit 0
fi
printf 'GET /parser/newest HTTP/1.0\r\nHost: packages.demo.example\r\n\r\n' >&3
while IFS= read -r line <&3; do
    [ -n "${line%$'\r'}" ] || break
done
IFS= read -r newest <&3
exec 3>&-
[ -n "$newest" ] || { say 'agent: the index said nothing'; exit 1; }
say "agent: the index says: $newest"

printf '%s\n' "$newest" >RELEASE.txt
git add RELEASE.txt && git commit -qm 'release: take over the newest parser' || exit 1
printf '%s\n' "- took over $newest" >>NOTES.md
say 'agent: done; I forgot to commit the last note'
