import { describe, expect, it } from 'vitest';
import { SUBJECT, event } from './events.fixture';
import { LONGEST_DETAIL, detailOf } from './detail';

describe('the detail of an event', () => {
  it('shows all lines of what was said, with marks for what is hidden', () => {
    const detail = detailOf(event({ kind: 'output', stream: 'terminal', text: 'a\u001b[31m\u202eb\r\nc\u0007' }));
    expect(detail.text).toBe('a⟦U+202E⟧b\nc␇');
    expect(detail.json).toContain('"kind": "output"');
    expect(detail.notes).toEqual([]);
  });

  it('is bounded and says so', () => {
    const detail = detailOf(event({ kind: 'output', stream: 'stdout', text: 'z'.repeat(2 * LONGEST_DETAIL), continued: true }));
    expect(detail.text).toHaveLength(LONGEST_DETAIL);
    expect(detail.notes).toEqual([
      'The JSON is shown up to its first 256 KiB.',
      'The text is shown up to its first 256 KiB.',
      'The line was longer than one event takes: it goes on in the next row.',
    ]);
  });

  it('says how many exact bytes are kept', () => {
    const detail = detailOf(event({ kind: 'output', stream: 'stdout', text: '�', raw: '/w==' }));
    expect(detail.notes[0]).toContain('The exact 1 B are kept');
  });

  it('names the host to filter by', () => {
    expect(detailOf(event({ kind: 'egress', subject: SUBJECT, count: 1, verdict: 'allowed', rule: 'r' })).host).toBe('registry.example');
    expect(detailOf(event({ kind: 'warning', message: 'x' })).host).toBeNull();
  });
});
