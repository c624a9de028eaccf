import { describe, expect, it } from 'vitest';
import type { BlockView } from '@/ipc/bindings';
import { EGRESS, amendedView, fileView, memoryView, processesView, sampleAmendment, sampleDecided, sampleView } from './sample.fixture';
import * as words from './words';

const RTL = '\u202e';

describe('words of a block', () => {
  it('say what was attempted as the command line does', () => {
    const subject = EGRESS;
    expect(words.subjectWords(subject)).toBe('tcp npm.registry.example:443');
    expect(words.subjectWords({ ...subject, host: { address: '2001:db8::1' } })).toBe('tcp [2001:db8::1]:443');
    expect(words.subjectWords({ ...subject, protocol: 'udp', resolved: '10.0.0.4' })).toBe(
      'udp npm.registry.example:443 at 10.0.0.4',
    );
  });

  it('say which name was looked up and which address goes with it', () => {
    const subject = EGRESS;
    expect(words.addressWords(sampleView())).toContain('Not resolved');
    expect(words.addressWords(amendedView())).toBe('Looked up as npm.registry.example.');
    expect(words.addressWords(sampleView({ address_vetted: false }))).toContain('Not vetted: the proxy resolves');
    expect(words.addressWords(sampleView({ subject: { ...subject, resolved: '10.0.0.4' } }))).toContain(
      'resolves to 10.0.0.4, a private address',
    );
    expect(words.addressWords(sampleView({ subject: { ...subject, host: { address: '192.0.2.7' } } }))).toContain(
      'no name was looked up',
    );
  });

  it('show hidden characters of a host and of a command as marks', () => {
    const subject = EGRESS;
    const hostile = words.subjectWords({ ...subject, host: { name: `evil${RTL}moc.example` } });
    expect(hostile).not.toContain(RTL);
    expect(hostile).toContain('U+202E');
    const lines = words.processWords(sampleView({ holders: [{ pid: 7, argv: ['sh', '-c', 'a\nAmend'] }] }));
    expect(lines).toHaveLength(1);
    expect(lines[0]).not.toContain('\n');
    expect(lines[0]).toContain('(pid 7)');
  });

  it('name three processes and count the rest', () => {
    const holders = [1, 2, 3, 4, 5].map((pid) => ({ pid, argv: ['curl'] }));
    expect(words.processWords(sampleView({ holders }))).toEqual([
      'curl (pid 1)',
      'curl (pid 2)',
      'curl (pid 3)',
      'and 2 more',
    ]);
    expect(words.processWords(sampleView({ holders: [{ pid: 9, argv: [] }] }))).toEqual([
      'a process that is gone (pid 9)',
    ]);
  });

  it('say of files what all of them have in common, and name the first of them', () => {
    const view = fileView();
    expect(words.blockWords(view)).toBe('write 5 paths in /srv/data');
    expect(words.subjectWords(view.subject)).toBe('write /srv/data/a.txt');
    expect(words.detailWords(view)).toEqual([
      '/srv/data/a.txt (not there yet)',
      '/srv/data/b.txt',
      'and 3 more',
      'In /srv/data, by openat.',
    ]);
    expect(words.waitingWords(view)).toBe('2 actions');
    expect(words.wallWords(view.subject)).toBe('File wall');
    const one = fileView({ file: view.file ? { ...view.file, different: 1 } : null } as Partial<BlockView>);
    expect(words.blockWords(one)).toBe('write /srv/data/a.txt');
  });

  it('say of a bound what was reached, and whether the run goes on', () => {
    const view = memoryView();
    expect(words.blockWords(view)).toBe('bound of memory, 4.2 GiB of 4 GiB');
    expect(words.subjectWords({ type: 'socket', path: '/run/x.sock' })).toBe('socket /run/x.sock');
    expect(words.subjectWords({ type: 'bound', bound: 'open_files' })).toBe('bound of open files');
    expect(words.detailWords(view)).toEqual([
      'That is 256 MiB over its bound, as measured once the run was paused.',
      'The run is paused until you decide. Raised, it goes on where it was. Time it is paused does not count as wall time.',
    ]);
    expect([words.stateTitle(view), words.waitingWords(view), words.denyWord(view)]).toEqual(['Paused', 'the paused run', 'Stop the run']);
    expect(words.waitingWords(memoryView({ seen: 2 }))).toBe('the paused run (reached 2 times)');
    const later = processesView();
    expect(words.detailWords(later)).toEqual(['More than that is refused to the run, which goes on.']);
    expect(words.stillWords(later)).toBe('A higher bound counts from the next run on.');
    expect([words.stateTitle(later), words.waitingWords(later), words.denyWord(later)]).toEqual(['Goes on', 'nothing, the run goes on', 'Keep the bound']);
    expect(words.factName(later.subject)).toBe('Reached');
  });

  it('say what a decision did to a run at its bound', () => {
    const { subject } = memoryView();
    const raise = sampleAmendment({ words: 'Raise memory to 6 GiB for this run, and let it go on' });
    expect(words.outcomeWords(sampleDecided({ amendment: raise, released: 1 }), subject)).toBe(
      'Amended: Raise memory to 6 GiB for this run, and let it go on; the run goes on.',
    );
    const deny = sampleAmendment({ decision: 'deny', reason: '', words: 'Refuse bound of memory for the rest of this run' } as never);
    const denied = sampleDecided({ amendment: deny, released: 0, refused: 1 });
    expect(words.outcomeWords(denied, subject)).toContain('; the run is stopped.');
    expect(words.takenBackWords(denied, subject)).toBe('Taken back. A run that was stopped stays stopped.');
    expect(words.takenBackWords(sampleDecided({ amendment: raise }), subject)).toContain('the bound is what it was before');
    const expired = memoryView({ state: 'expired', waiting: 0, decided: 'given up at 14:02 without an answer' });
    expect(words.standingWords(expired)).toBe(
      'Given up at 14:02 without an answer. Nobody denied it; the run was stopped. A higher bound still helps later runs.',
    );
    expect(words.stillWords(memoryView({ state: 'gone', waiting: 0 }))).toContain('does not wait at this bound any more');
  });

  it('count what waits', () => {
    expect(words.waitingWords(sampleView())).toBe('2 connections');
    expect(words.waitingWords(sampleView({ waiting: 1, seen: 5 }))).toBe('1 connection (5 seen)');
    expect(words.waitingWords(sampleView({ waiting: 0, seen: 1 }))).toBe('nothing any more (1 attempt seen)');
  });

  it('never call an expired block denied', () => {
    const expired = sampleView({ state: 'expired', decided: 'given up at 14:02 without an answer' });
    expect(words.stateTitle(expired)).toBe('Expired');
    expect(words.standingWords(expired)).toBe(
      'Given up at 14:02 without an answer. Nobody denied it; an amendment still helps its next try.',
    );
    expect(words.lateWords(expired)).not.toContain('Already');
  });

  it('say who was faster', () => {
    expect(words.lateWords(amendedView())).toBe('Already amended by you at 14:02.');
    expect(words.lateWords(amendedView({ decided: null }))).toBe('Already amended.');
    expect(words.standingWords(amendedView())).toBe('Amended by you at 14:02.');
  });

  it('say what a decision did to each held action', () => {
    const amended = words.outcomeWords(sampleDecided(), EGRESS);
    expect(amended).toBe(
      'Amended: Let this run connect to npm.registry.example:443 until it ends; 2 actions let go.',
    );
    const deny = { decision: 'deny', reason: '', words: 'Refuse tcp a.example:443 for the rest of this run' } as const;
    const denied = sampleDecided({ amendment: sampleAmendment(deny), released: 0, refused: 1, in_force: false });
    expect(words.outcomeWords(denied, EGRESS)).toBe(
      'Denied: Refuse tcp a.example:443 for the rest of this run; 1 action refused; ' +
        'the run is over, so it is only recorded.',
    );
    const hour = sampleDecided({ amendment: sampleAmendment({ expires: '2026-01-02T15:02:00Z' }) });
    expect(words.outcomeWords(hour, EGRESS)).toContain('; it ends by itself on 2 Jan 2026');
    expect(words.takenBackWords(sampleDecided({ cut: 2 }), EGRESS)).toBe(
      'Taken back; 2 open connections cut. Bytes already sent and files already written stay, and a file that is open stays open.',
    );
  });

  it('make a sentence of words', () => {
    expect(words.sentence('no rule allows it')).toBe('No rule allows it.');
    expect(words.sentence('Really?')).toBe('Really?');
    expect(words.sentence('  ')).toBe('');
  });
});
