const FIGURES = new Intl.NumberFormat('en-GB');

/** A whole number with separators: "12,400". */
export function figure(n: number): string {
  return FIGURES.format(n);
}

/** The word for `n` of something. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return n === 1 ? one : many;
}

/** A number and its word: "1 block", "12,400 lines". */
export function count(n: number, one: string, many = `${one}s`): string {
  return `${figure(n)} ${plural(n, one, many)}`;
}
