import { describe, expect, it } from 'vitest';
import { boundFault, boundValue, durationText, parseDuration, parseSize } from './quantity';

describe('durations and sizes', () => {
  it('are read as the engine reads them', () => {
    const texts = ['90s', '2h', '1h30m', '1.5 hours', '2 days', '45 min', ' 1d 2h 3m 4s '];
    expect(texts.map(parseDuration)).toEqual([90, 7200, 5400, 5400, 172_800, 2700, 93_784]);
    expect(['256MiB', '4 GiB', '1.5G', '500kB', '12 bytes', '1tib'].map(parseSize)).toEqual([256 * 1024 ** 2, 4 * 1024 ** 3, 1.5 * 1024 ** 3, 500_000, 12, 1024 ** 4]);
  });
  it('without a plain meaning are refused', () => {
    for (const text of ['', ' ', '5', 'h', '2x', '-1h', '1h2h', '1m2h', '1..5h', '.h', '1e3s', '2h!', '1.0000h', '99999999999999999999d']) {
      expect(parseDuration(text), text).toBeNull();
    }
    expect(['4', '4 GiBs'].map(parseSize)).toEqual([null, null]);
  });
  it('read back as they are written', () => {
    for (const seconds of [1, 90, 3600, 5400, 93_784]) expect(parseDuration(durationText(seconds))).toBe(seconds);
  });
});

describe('bounds', () => {
  it('may be blank', () => {
    expect([boundFault('wall', ' '), boundValue('wall', ' ')]).toEqual([null, null]);
  });
  it('say what can be written and what is possible', () => {
    expect(boundFault('wall', '5')).toMatch(/a number and a unit/);
    expect(boundFault('memory', '4MiB')).toMatch(/too small.*16 MiB/);
    expect(boundFault('output', '2TiB')).toMatch(/too large/);
    expect(boundFault('processes', '4.5')).toMatch(/whole number/);
    expect(boundFault('processes', '7')).toMatch(/too small/);
    expect(boundFault('cpu', '0.04')).toMatch(/too small.*0.05/);
    expect(boundFault('cpu', '2 cores')).toMatch(/three digits/);
    expect(boundFault('cpu', '1.2345')).toMatch(/three digits/);
    expect(boundFault('disk', '512KiB')).toMatch(/too small.*1 MiB/);
    expect(boundFault('open_files', '31')).toMatch(/too small.*32/);
    expect([boundFault('processes', '512'), boundFault('memory', '4GiB'), boundFault('hold', '1d')]).toEqual([null, null, null]);
    expect([boundValue('cpu', '2'), boundValue('cpu', ' 0.05 '), boundValue('disk', '10GiB'), boundValue('open_files', '4096')]).toEqual([2000, 50, 10 * 1024 ** 3, 4096]);
  });
});
