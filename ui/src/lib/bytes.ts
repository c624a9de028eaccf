const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'] as const;

/** An amount of bytes in words: "0 B", "812 KiB", "1.2 GiB". */
export function bytes(n: number): string {
  if (!Number.isFinite(n) || n < 0) return 'unknown';
  let value = n;
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  // 1023.96 MiB would round up to "1024.0 MiB".
  if (unit < UNITS.length - 1 && Math.round(value) >= 1024) {
    value /= 1024;
    unit += 1;
  }
  const figure = unit === 0 || value >= 100 ? Math.round(value).toString() : value.toFixed(1);
  return `${figure} ${UNITS[unit] ?? 'B'}`;
}

/** Reads an amount as an operator types it ("10 GiB", "512M", "100"); absent when it is none. */
export function parseBytes(typed: string): number | null {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?\s*$/i.exec(typed);
  if (!found) return null;
  const power = ['', 'k', 'm', 'g', 't', 'p'].indexOf((found[2] ?? '').toLowerCase());
  const value = Math.round(Number(found[1]) * 1024 ** power);
  return Number.isSafeInteger(value) ? value : null;
}
