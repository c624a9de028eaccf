// Destinations of the allow list as typed: `host:port`, `*.suffix:port`, `[v6]:port`, each maybe behind `udp:`.
// The engine decides; this says what is plainly wrong beside the field, before anything is sent.

const HINT = 'Write host and port, as registry.example:443.';

function hostFault(host: string): string | null {
  if (host === '') return `The host is missing. ${HINT}`;
  if (/\s/.test(host)) return 'A host has no blanks.';
  if (host === '*' || host === '**') return 'Any host at all cannot be allowed. Write *.example.com for one level under a name.';
  const name = host.replace(/^\*\*?\./, '');
  if (name.includes('*')) return 'A star stands only at the beginning, as *.example.com.';
  if (name.includes('/') && !/^[\d.]+\/\d{1,2}$/.test(name)) return `A path cannot be allowed, only a host. ${HINT}`;
  return name.split('.').some((label) => label === '') ? 'Two dots follow each other, or a dot ends the name.' : null;
}

function portFault(text: string, udp: boolean): string | null {
  if (!/^\d{1,5}$/.test(text) || Number(text) < 1 || Number(text) > 65_535) return 'A port is a number from 1 to 65535.';
  if (text === '53') return 'Port 53 cannot be allowed: names are answered by the cage itself.';
  return udp && (text === '443' || text === '853') ? `No rule can open UDP port ${text}.` : null;
}

/** What is wrong with an item; absent when nothing is. */
export function allowFault(item: string): string | null {
  const text = item.trim();
  if (text === '') return HINT;
  if (text.includes('://')) return `That is the address of a page. ${HINT}`;
  const protocol = /^(tcp|udp)(?: +|:(?=.*:))/i.exec(text);
  const udp = protocol?.[1]?.toLowerCase() === 'udp';
  const rest = protocol ? text.slice(protocol[0].length) : text;
  if (rest.startsWith('[')) {
    const found = /^\[([^\]]*)\]:(.*)$/.exec(rest);
    if (!found) return 'There is no port behind the address. Write it as [2001:db8::1]:443.';
    if (!found[1]?.includes(':')) return 'Brackets are for IPv6 addresses only.';
    return portFault(found[2] ?? '', udp);
  }
  const at = rest.lastIndexOf(':');
  if (at < 0) return `There is no port. ${HINT}`;
  const host = rest.slice(0, at);
  if (host.includes(':')) return 'Put an IPv6 address in brackets, as [2001:db8::1]:443. The protocol can be tcp or udp.';
  return hostFault(host) ?? portFault(rest.slice(at + 1), udp);
}
