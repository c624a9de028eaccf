/** Points of a line through `values` in a box; a value that was not measured breaks the line. */
export function sparkPaths(values: readonly (number | null)[], width: number, height: number): string[] {
  const measured = values.filter((value): value is number => value !== null && Number.isFinite(value));
  const top = Math.max(...measured, 0) || 1;
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  const paths: string[] = [];
  let open = '';
  values.forEach((value, at) => {
    if (value === null || !Number.isFinite(value)) {
      if (open) paths.push(open);
      open = '';
      return;
    }
    const x = (at * step).toFixed(1);
    const y = (height - (Math.max(0, value) / top) * height).toFixed(1);
    open += `${open ? 'L' : 'M'}${x} ${y}`;
  });
  if (open) paths.push(open);
  return paths;
}
