const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const EXACT = new Intl.DateTimeFormat('en-GB', {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});

/** Milliseconds of an RFC 3339 time; absent when it is none. */
export function millisOf(at: string | null | undefined): number | null {
  if (at === null || at === undefined) return null;
  const millis = Date.parse(at);
  return Number.isNaN(millis) ? null : millis;
}

function span(millis: number): string {
  if (millis < MINUTE) return `${Math.max(0, Math.floor(millis / SECOND))} s`;
  if (millis < HOUR) return `${Math.floor(millis / MINUTE)} min`;
  if (millis < 2 * DAY) return `${Math.floor(millis / HOUR)} h`;
  return `${Math.floor(millis / DAY)} d`;
}

/** How long ago, or in how long: "12 s ago", "in 4 min", "now". */
export function relative(at: string | null | undefined, now: number): string {
  const millis = millisOf(at);
  if (millis === null) return 'unknown';
  const ago = now - millis;
  if (Math.abs(ago) < 2 * SECOND) return 'now';
  return ago >= 0 ? `${span(ago)} ago` : `in ${span(-ago)}`;
}

/** The exact time in the operator's zone, for a title. */
export function exact(at: string | null | undefined): string {
  const millis = millisOf(at);
  return millis === null ? 'unknown' : EXACT.format(millis);
}

/** A length of time in its two largest units: "420 ms", "4 min 10 s", "2 d 3 h". */
export function duration(millis: number): string {
  if (!Number.isFinite(millis) || millis <= 0) return '0 s';
  if (millis < SECOND) return `${Math.floor(millis)} ms`;
  const two = (major: number, majorWord: string, minor: number, minorWord: string): string =>
    minor === 0 ? `${major} ${majorWord}` : `${major} ${majorWord} ${minor} ${minorWord}`;
  if (millis < MINUTE) return `${Math.floor(millis / SECOND)} s`;
  if (millis < HOUR) return two(Math.floor(millis / MINUTE), 'min', Math.floor((millis % MINUTE) / SECOND), 's');
  if (millis < DAY) return two(Math.floor(millis / HOUR), 'h', Math.floor((millis % HOUR) / MINUTE), 'min');
  return two(Math.floor(millis / DAY), 'd', Math.floor((millis % DAY) / HOUR), 'h');
}

/** A length of time in its largest unit only, for narrow columns: "4 min". */
export function shortDuration(millis: number): string {
  return span(Math.max(0, millis));
}
