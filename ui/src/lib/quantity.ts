// Durations and sizes as people write them, by the engine's own rules: a sum of "number unit" parts, each unit
// smaller than the one before it. No unit, no meaning.

type Units = readonly (readonly [names: readonly string[], factor: number])[];

const DURATIONS: Units = [
  [['day', 'days', 'd'], 86_400],
  [['hour', 'hours', 'h', 'hr', 'hrs'], 3_600],
  [['minute', 'minutes', 'm', 'min', 'mins'], 60],
  [['second', 'seconds', 's', 'sec', 'secs'], 1],
];
const SIZES: Units = [
  [['tib', 't'], 1024 ** 4],
  [['gib', 'g'], 1024 ** 3],
  [['mib', 'm'], 1024 ** 2],
  [['kib', 'k'], 1024],
  [['tb'], 1e12],
  [['gb'], 1e9],
  [['mb'], 1e6],
  [['kb'], 1e3],
  [['byte', 'bytes', 'b'], 1],
];

function quantity(text: string, units: Units): number | null {
  let rest = text.trim();
  let [total, smaller] = [0, Number.POSITIVE_INFINITY];
  while (rest !== '') {
    const part = /^(\d+(?:\.\d{1,3})?)\s*([a-z]+)\s*/i.exec(rest);
    const name = part?.[2]?.toLowerCase() ?? '';
    const factor = units.find(([names]) => names.includes(name))?.[1];
    if (!part || factor === undefined || factor >= smaller) return null;
    smaller = factor;
    total += Math.floor(Number(part[1]) * factor);
    rest = rest.slice(part[0].length);
  }
  return smaller === Number.POSITIVE_INFINITY || !Number.isSafeInteger(total) ? null : total;
}

/** Seconds: "90s", "2h", "1h30m"; absent when it is no duration. */
export function parseDuration(text: string): number | null {
  return quantity(text, DURATIONS);
}

/** Bytes: "256MiB", "4 GiB", "500kB"; absent when it is no size. */
export function parseSize(text: string): number | null {
  return quantity(text, SIZES);
}

function inUnits(amount: number, units: Units): string {
  let rest = amount;
  const parts: string[] = [];
  for (const [names, factor] of units) {
    const whole = Math.floor(rest / factor);
    rest -= whole * factor;
    if (whole > 0) parts.push(`${String(whole)}${names.at(0) === 'byte' ? 'B' : (names.at(-1) ?? '')}`);
  }
  return parts.join(' ');
}

/** A duration that reads back as it is: "1h 30m". */
export function durationText(seconds: number): string {
  const [days, hours, minutes, left] = DURATIONS.map(([, factor]) => factor);
  const short: Units = [[['d'], days ?? 1], [['h'], hours ?? 1], [['m'], minutes ?? 1], [['s'], left ?? 1]];
  return inUnits(seconds, short) || '0s';
}

type Kind = 'duration' | 'size' | 'processors' | 'count' | 'tokens' | 'money';

interface Bound {
  readonly kind: Kind;
  readonly least: number;
  readonly most: number;
  /** Both ends in words. */
  readonly words: string;
  /** One that reads well, to write the like of. */
  readonly example: string;
}

const DAY = 86_400;
const MIB = 1024 ** 2;
const TIB = 1024 ** 4;
/** What can be bounded, in the unit that a bound is sent in, and the figures that are taken. */
const BOUNDS = {
  wall: { kind: 'duration', least: 1, most: 30 * DAY, words: 'From 1 second to 30 days is possible.', example: '2h' },
  hold: { kind: 'duration', least: 1, most: 30 * DAY, words: 'From 1 second to 30 days is possible.', example: '30m' },
  memory: { kind: 'size', least: 16 * MIB, most: 64 * TIB, words: 'From 16 MiB to 64 TiB is possible.', example: '4GiB' },
  output: { kind: 'size', least: 4 * 1024, most: TIB, words: 'From 4 KiB to 1 TiB is possible.', example: '256MiB' },
  disk: { kind: 'size', least: MIB, most: 64 * TIB, words: 'From 1 MiB to 64 TiB is possible.', example: '10GiB' },
  cpu: { kind: 'processors', least: 50, most: 4_096_000, words: 'From 0.05 to 4096 is possible.', example: '2' },
  processes: { kind: 'count', least: 8, most: 1024 ** 2, words: 'From 8 to 1,048,576 is possible.', example: '512' },
  tokens: { kind: 'tokens', least: 100, most: 2 ** 50, words: 'From 100 on is possible.', example: '500k' },
  cost: { kind: 'money', least: 100, most: 1e12, words: 'From $0.0001 to $1,000,000 is possible.', example: '5' },
  turns: { kind: 'count', least: 1, most: 2 ** 32, words: 'From 1 on is possible.', example: '200' },
  open_files: { kind: 'count', least: 32, most: 1024 ** 2, words: 'From 32 to 1,048,576 is possible.', example: '4096' },
} as const satisfies Record<string, Bound>;
export type BoundField = keyof typeof BOUNDS;

const HOW: Readonly<Record<Kind, string>> = {
  duration: 'Write a number and a unit, as 90s, 45m, 2h, 1h30m or 1d.',
  size: 'Write a number and a unit, as 256MiB or 4GiB.',
  processors: 'Write a number with at most three digits after the point, as 2 or 0.5.',
  count: 'Write a whole number, as 512.',
  tokens: 'Write a whole number, or one with k or M behind it, as 200k or 1.5M.',
  money: 'Write a number with at most three digits after the point, as 5 or 0.25.',
};

/** How a figure of this bound can be written. */
export function boundExample(field: BoundField): string {
  return BOUNDS[field].example;
}

/**
 * A bound in the unit that it is sent in: seconds, bytes, thousandths of a processor, millionths of a dollar, or how many. Absent when the
 * field is blank or wrong.
 */
export function boundValue(field: BoundField, text: string): number | null {
  if (text.trim() === '') return null;
  switch (BOUNDS[field].kind) {
    case 'duration':
      return parseDuration(text);
    case 'size':
      return parseSize(text);
    case 'processors':
      return /^\s*\d{1,9}(\.\d{1,3})?\s*$/.test(text) ? Math.round(Number(text) * 1000) : null;
    case 'tokens':
      return parseTokens(text);
    case 'money':
      return /^\s*\$?\d{1,9}(\.\d{1,3})?\s*$/.test(text) ? Math.round(Number(text.trim().replace('$', '')) * 1e6) : null;
    case 'count':
      return /^\s*\d{1,9}\s*$/.test(text) ? Number(text) : null;
  }
}

/** Tokens: "200000", "200k", "1.5M"; absent when it is no number of them. */
function parseTokens(text: string): number | null {
  const part = /^\s*(\d{1,9})(\.\d{1,3})?\s*([km])?\s*$/i.exec(text);
  if (!part || (part[2] !== undefined && part[3] === undefined)) return null;
  const factor = { k: 1e3, m: 1e6 }[part[3]?.toLowerCase() ?? ''] ?? 1;
  return Math.floor(Number(`${part[1] ?? ''}${part[2] ?? ''}`) * factor);
}

/** What is wrong with a bound; absent when nothing is, or the field is blank. */
export function boundFault(field: BoundField, text: string): string | null {
  if (text.trim() === '') return null;
  const value = boundValue(field, text);
  const { kind, least, most, words } = BOUNDS[field];
  if (value === null) return HOW[kind];
  return value < least ? `That is too small to be meant. ${words}` : value > most ? `That is too large to be meant. ${words}` : null;
}
