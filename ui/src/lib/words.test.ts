import { describe, expect, it } from 'vitest';
import { bytes, parseBytes } from './bytes';
import { count, figure, plural } from './count';
import { duration, exact, millisOf, relative, shortDuration } from './time';

describe('time', () => {
  const now = Date.parse('2026-12-01T12:00:00Z');
  it('says how long ago something was', () => {
    expect(relative('2026-12-01T11:59:59Z', now)).toBe('now');
    expect(relative('2026-12-01T11:59:48Z', now)).toBe('12 s ago');
    expect(relative('2026-12-01T11:56:00Z', now)).toBe('4 min ago');
    expect(relative('2026-12-01T09:00:00Z', now)).toBe('3 h ago');
    expect(relative('2026-11-20T12:00:00Z', now)).toBe('11 d ago');
    expect(relative('2026-12-01T12:04:00Z', now)).toBe('in 4 min');
  });
  it('does not guess at what is no time', () => {
    expect(relative('yesterday', now)).toBe('unknown');
    expect(relative(null, now)).toBe('unknown');
    expect(exact('yesterday')).toBe('unknown');
    expect(millisOf(undefined)).toBeNull();
  });
  it('gives a length in its two largest units', () => {
    expect(duration(420)).toBe('420 ms');
    expect(duration(250_000)).toBe('4 min 10 s');
    expect(duration(3_600_000)).toBe('1 h');
    expect(duration(51 * 3_600_000)).toBe('2 d 3 h');
    expect(duration(-5)).toBe('0 s');
    expect(shortDuration(250_000)).toBe('4 min');
  });
});

describe('bytes', () => {
  it('words an amount', () => {
    expect(bytes(0)).toBe('0 B');
    expect(bytes(1023)).toBe('1023 B');
    expect(bytes(1024)).toBe('1.0 KiB');
    expect(bytes(1_288_490_189)).toBe('1.2 GiB');
    expect(bytes(1024 ** 2 - 1)).toBe('1.0 MiB');
    expect(bytes(Number.NaN)).toBe('unknown');
  });
  it('reads what it wrote and what people type', () => {
    expect(parseBytes('1.5 GiB')).toBe(1.5 * 1024 ** 3);
    expect(parseBytes('512M')).toBe(512 * 1024 ** 2);
    expect(parseBytes(' 100 ')).toBe(100);
    expect(parseBytes('10 apples')).toBeNull();
    expect(parseBytes('-1')).toBeNull();
    expect(parseBytes('')).toBeNull();
  });
});

describe('count', () => {
  it('picks the word for the number', () => {
    expect(count(1, 'block')).toBe('1 block');
    expect(count(0, 'block')).toBe('0 blocks');
    expect(count(12_400, 'line')).toBe('12,400 lines');
    expect(count(2, 'process', 'processes')).toBe('2 processes');
    expect(plural(1, 'run')).toBe('run');
    expect(figure(1_000_000)).toBe('1,000,000');
  });
});
