//! The two git steps that run inside the cage, by the cage's own git, in the worktree: committing
//! what was left, and printing the run's commits as a bundle.
//!
//! In there everything is hostile already, so nothing here defends the host: it only makes the
//! steps succeed under whatever configuration, lock or half-done operation the run left behind. What
//! they print is judged by [`crate::Repository::harvest`].

use crate::Worktree;

/// First line of the commit that `finish` makes, up to the run's id.
pub(crate) const FINISH_MESSAGE: &str = "foreman: uncommitted work of run ";
/// The ref that a bundle carries.
pub(crate) const BUNDLE_REF: &str = "refs/foreman/harvest";
/// A note in the harvest file: HEAD was elsewhere, the run's branch was collected.
pub(crate) const NOTE_BRANCH: &str = "branch";
/// A note: HEAD and the run's branch went apart; HEAD was collected.
pub(crate) const NOTE_DIVERGED: &str = "diverged";

/// What both steps start with. `$1` run, `$2` branch, `$3` base commit.
const PRELUDE: &str = r#"
set -u
umask 022
run=$1 branch=$2 base=$3
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_COMMON_DIR GIT_NAMESPACE
unset GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS GIT_EXTERNAL_DIFF GIT_TRACE GIT_TRACE2
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=0
export GIT_ATTR_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0 GIT_EDITOR=true GIT_PAGER=cat GIT_ADVICE=0
# A file that is not there and that no run can make: older gits complain of one that is.
export GIT_NO_REPLACE_OBJECTS=1 GIT_GRAFT_FILE=/run/foreman/none GIT_NO_LAZY_FETCH=1
: "${GIT_AUTHOR_NAME:=foreman}" "${GIT_AUTHOR_EMAIL:=foreman@localhost}"
: "${GIT_COMMITTER_NAME:=foreman}" "${GIT_COMMITTER_EMAIL:=foreman@localhost}"
export GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL
g() {
  git --no-pager -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false \
    -c core.untrackedCache=false -c core.splitIndex=false -c core.sparseCheckout=false \
    -c core.excludesFile=/dev/null -c core.attributesFile=/dev/null -c core.safecrlf=false \
    -c core.commitGraph=false -c core.multiPackIndex=false -c core.editor=true \
    -c commit.gpgSign=false -c i18n.commitEncoding=UTF-8 -c gc.auto=0 -c maintenance.auto=false \
    -c advice.addEmbeddedRepo=false -c index.sparse=false -c pack.threads=2 "$@"
}
if [ -n "${FOREMAN_GIT_DIR:-}" ]; then
  # Nothing is bound: the worktree's file leads to the operator's own directory, which is closed.
  gd=$FOREMAN_GIT_DIR
  export GIT_DIR=$gd GIT_WORK_TREE=$PWD
else
  # The file is bound read-only, so it says the truth whatever happened to the rest.
  gd=$(cat .git) && gd=${gd#gitdir: } || exit 1
fi
common=${gd%/worktrees/*}
# Git would wait for ever for what a pipe says, and read a device to its end that never comes.
find "$common" ! -type f ! -type d -exec sh -c \
  'for odd in "$@"; do [ -f "$odd" ] || [ -d "$odd" ] || rm -f "$odd"; done' sh {} + 2>/dev/null
find . -type p -name '.git*' -exec rm -f {} + 2>/dev/null
# Every process of the run is dead: a lock that is still there belongs to nobody.
unlock() {
  rm -f "$gd"/*.lock "$common"/*.lock
  find "$common/refs" -name '*.lock' -exec rm -f {} + 2>/dev/null
}
# The configuration as it was made: what the run told git about files (filters, attributes, what to ignore)
# would make the commits differ from the files that were tried, without a trace in what is reviewed.
pristine=$common/foreman-pristine
plain_config() {
  rm -rf "$gd/config.worktree" "$common/config" "$common/info" "$gd/info" 2>/dev/null
  mkdir -p "$common/info"
  cp "$pristine/config" "$common/config" 2>/dev/null || printf \
    '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n' >"$common/config"
  for name in attributes exclude; do
    [ -f "$pristine/$name" ] && cp "$pristine/$name" "$common/info/$name"
  done
}
usable() { g rev-parse --git-dir >/dev/null 2>&1; }
ready() {
  unlock
  if [ ! -s "$common/objects/info/alternates" ]; then
    # Without it nothing of the repository is found.
    mkdir -p "$common/objects/info"
    cp "$pristine/alternates" "$common/objects/info/alternates" 2>/dev/null
  fi
  usable && return 0
  plain_config
  usable && return 0
  mkdir -p "$common/refs/heads" "$common/objects/info"
  [ -f "$common/HEAD" ] || printf 'ref: refs/heads/none\n' >"$common/HEAD"
  [ -s "$gd/commondir" ] || printf '../..\n' >"$gd/commondir"
  usable && return 0
  printf 'ref: refs/heads/%s\n' "$branch" >"$gd/HEAD"
  usable
}
ready || { echo "foreman: the run left a git directory that cannot be read" >&2; exit 1; }
commit_of() { g rev-parse -q --verify "$1^{commit}" 2>/dev/null; }
"#;

const FINISH: &str = r#"
hidden=.git-foreman-$run
# A nested repository that is not a submodule would be recorded as a bare link and its files lost:
# its .git is put aside for the moment, so that its files are taken as files.
is_submodule() {
  case $(g ls-tree "$base" -- "$1" 2>/dev/null) in 160000*) return 0 ;; esac
  [ -f .gitmodules ] || return 1
  g config -f .gitmodules --get-regexp '^submodule\..*\.path$' 2>/dev/null \
    | sed 's/^[^ ]* //' | grep -qxF -- "$1"
}
put_aside() {
  for git in "$@"; do
    dir=${git%/.git} dir=${dir#./}
    g check-ignore -q -- "$dir" 2>/dev/null && continue
    is_submodule "$dir" && continue
    mv "$git" "${git%.git}$hidden" 2>/dev/null || continue
    case $(g ls-files -s -- "$dir" 2>/dev/null) in
      160000*) g update-index --force-remove -- "$dir" 2>/dev/null ;;
    esac
    echo "foreman: the files of the nested repository $dir are committed as files" >&2
  done
}
# Recurses into this script for each batch of names, whatever characters they hold.
if [ "${4:-}" = aside ]; then shift 4; put_aside "$@"; exit 0; fi
"#;

/// The rest of `finish`, after the functions above.
const FINISH_MAIN: &str = r#"
back() {
  find . -mindepth 2 -name "$hidden" -prune -exec sh -c \
    'for aside in "$@"; do mv "$aside" "${aside%/*}/.git"; done' sh {} + 2>/dev/null
}
trap back EXIT
trap 'exit 1' HUP INT TERM
back
refs=$(g config extensions.refstorage 2>/dev/null) || refs=
plain_config
if [ -n "$refs" ]; then
  git config -f "$common/config" core.repositoryformatversion 1
  git config -f "$common/config" extensions.refstorage "$refs"
fi
rm -rf "$gd"/foreman-*
# What the index says of the files' state may be forged (taken as unchanged, times that fit): every file is
# read anew. A file that the run left out of a sparse checkout is not taken for a deleted one.
[ -f "$gd/index" ] || g read-tree HEAD 2>/dev/null
fresh() { GIT_INDEX_FILE="$gd/foreman-index" g "$@"; }
if g ls-files -s -z >"$gd/foreman-known" 2>/dev/null \
  && fresh update-index -z --index-info <"$gd/foreman-known" 2>/dev/null; then
  g ls-files -t -z | sed -z -n 's/^S //p' 2>/dev/null | sort -z >"$gd/foreman-absent"
  if [ -s "$gd/foreman-absent" ]; then
    fresh ls-files -z --deleted | sort -z | comm -z -12 - "$gd/foreman-absent" \
      | fresh update-index -z --skip-worktree --stdin
  fi
  [ -f "$gd/foreman-index" ] && mv -f "$gd/foreman-index" "$gd/index"
fi
rm -rf "$gd"/foreman-*
export script
find . -mindepth 2 -name .git -prune -exec sh -c 'eval "$script"' foreman \
  "$run" "$branch" "$base" aside {} +
unset script
add() {
  g add -A "$@" -- . ":(exclude,glob)**/$hidden" ":(exclude,glob)**/$hidden/**"
}
# What was copied here from the operator's checkout is nobody's work, also where a file of the tree tells git
# not to ignore it. What the run committed itself stays.
leave_copied_out() {
  [ -s "$pristine/copied" ] || return 0
  g -c core.quotePath=false ls-files | sort | comm -12 - "$pristine/copied" | while IFS= read -r path; do
    g cat-file -e "HEAD:$path" 2>/dev/null || g update-index --force-remove -- "$path"
  done
}
tree_of_all() {
  add 2>"$gd/foreman-add" || add --ignore-errors 2>"$gd/foreman-add" || [ $? -eq 1 ] || return 1
  leave_copied_out
  g write-tree
}
if ! tree=$(tree_of_all); then
  # A filter that the run configured, or an index that it broke.
  cat "$gd/foreman-add" >&2
  plain_config
  if ! tree=$(tree_of_all); then
    rm -f "$gd/index"
    g read-tree HEAD 2>/dev/null
    tree=$(tree_of_all) || { cat "$gd/foreman-add" >&2; exit 1; }
  fi
fi
cat "$gd/foreman-add" >&2
rm -f "$gd/foreman-add"
head=$(commit_of HEAD) || head=
if [ -z "$head" ] && [ "$(g symbolic-ref -q HEAD)" = "refs/heads/$branch" ]; then
  # The run deleted its branch or broke it: it goes on from where it started.
  head=$base
fi
if [ -n "$head" ] && [ "$tree" = "$(g rev-parse "$head^{tree}")" ]; then
  # Where the branch is further on, its tip is collected: the checks must see that, and not where the run
  # happened to stand.
  own=$(commit_of "refs/heads/$branch") || own=
  if [ -n "$own" ] && [ "$own" != "$head" ] && g merge-base --is-ancestor "$head" "$own"; then
    g read-tree -m -u "$head" "$own" || g read-tree --reset -u "$own"
  fi
  exit 0
fi
[ -n "$head" ] || [ "$tree" != 4b825dc642cb6eb9a060e54bf8d69288fbee4904 ] || exit 0
set --
[ -n "$head" ] && set -- -p "$head"
if merged=$(commit_of MERGE_HEAD) && [ "$merged" != "$head" ]; then set -- "$@" -p "$merged"; fi
commit=$(printf 'foreman: uncommitted work of run %s\n' "$run" | g commit-tree "$tree" "$@") || exit 1
g update-ref -m "foreman: uncommitted work" HEAD "$commit" 2>/dev/null \
  || { printf '%s\n' "$commit" >"$gd/HEAD"; [ "$(commit_of HEAD)" = "$commit" ]; } || exit 1
rm -f "$gd/MERGE_HEAD" "$gd/MERGE_MODE" "$gd/MERGE_MSG" "$gd/AUTO_MERGE" "$gd/CHERRY_PICK_HEAD" \
  "$gd/REVERT_HEAD"
exit 0
"#;

const HARVEST_MAIN: &str = r#"
at=$(commit_of HEAD) || at=
own=$(commit_of "refs/heads/$branch") || own=
note=
if [ -z "$at" ]; then at=${own:-$base}
elif [ -z "$own" ] || [ "$own" = "$at" ]; then :
elif g merge-base --is-ancestor "$own" "$at"; then :
elif g merge-base --is-ancestor "$at" "$own"; then at=$own note=branch
else note=diverged
fi
count=$(g rev-list --count "$at" "^$base") || exit 1
printf 'head %s\n' "$at"
[ -z "$note" ] || printf 'note %s\n' "$note"
if [ "$count" -eq 0 ]; then printf 'none\n'; exit 0; fi
if ! g update-ref refs/foreman/harvest "$at" 2>/dev/null; then
  rm -rf "$common/refs/foreman" "$common/logs/refs/foreman"
  g update-ref refs/foreman/harvest "$at" || exit 1
fi
printf 'bundle\n'
g bundle create -q --version=2 - refs/foreman/harvest "^$base"
"#;

impl Worktree {
    /// The step that commits, inside the cage, what the run left uncommitted (ignored files aside);
    /// does nothing, successfully, when there is nothing. Must run in the worktree.
    #[must_use]
    pub fn finish_argv(&self) -> Vec<String> {
        // The functions are handed, as text, to the shells that `find` starts for each batch.
        let script = format!("{PRELUDE}{FINISH}");
        let main = format!("script=$5\n{script}{FINISH_MAIN}");
        let mut argv = self.argv(main);
        argv.extend([String::new(), script]);
        argv
    }

    /// The step that prints, inside the cage, the run's commits to its output, for
    /// [`crate::Repository::harvest`]. Must run in the worktree, after [`Self::finish_argv`].
    #[must_use]
    pub fn harvest_argv(&self) -> Vec<String> {
        self.argv(format!("{PRELUDE}{HARVEST_MAIN}"))
    }

    fn argv(&self, script: String) -> Vec<String> {
        [
            "sh",
            "-c",
            &script,
            "foreman",
            &self.run,
            &self.branch,
            &self.base_commit,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}
