// Runs in the page, before the app: stands where the desktop shell would stand, and answers with what the real
// engine answered when the scenes were recorded. It decides nothing: a call that was not recorded is refused
// and noted in `__PLAYBACK__.unanswered`, which fails the suite.
//
// `recording`, `first` (the scene to begin with) and `theme` (what is set) are put in front of this file.

(() => {
  const { scenes, steps } = recording;
  const state = { scene: first, unanswered: [], asked: [] };
  const moved = new EventTarget();
  let settings = null;
  window.__PLAYBACK__ = state;

  // The page lives at the time of its scene, so that ages and the time left to undo are as they were.
  const RealDate = Date;
  let shift = scenes[first].at - RealDate.now();
  window.Date = class extends RealDate {
    constructor(...given) {
      if (given.length === 0) super(RealDate.now() + shift);
      else super(...given);
    }
    static now() {
      return RealDate.now() + shift;
    }
  };

  const NAMES = ['run', 'block', 'order', 'repo', 'path', 'amendment', 'commit'];
  /** What a decision about a block must say, too: it is played back only as it was made. */
  const DECISION = ['scope', 'rule', 'limit', 'reason'];
  const same = (left, right) => (left ?? null) === (right ?? null);
  const names = (left, right) => NAMES.every((name) => same(left[name], right[name]));
  const alike = (left, right) => Object.keys(left).filter((key) => same(left[key], right[key])).length;
  const copy = (value) => structuredClone(value);
  const cursor = () => `scene.${state.scene}`;

  function recorded(command, request) {
    const fitting = scenes[state.scene].answers.filter((one) => one.command === command && names(one.given.request ?? {}, request));
    const by = (one) => alike(one.given.request ?? {}, request);
    return fitting.sort((left, right) => by(right) - by(left))[0]?.answer;
  }

  function move(to) {
    state.scene = to;
    shift = scenes[to].at - RealDate.now();
    moved.dispatchEvent(new Event('moved'));
  }

  const wait = (millis) =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, millis);
      moved.addEventListener('moved', () => (clearTimeout(timer), resolve()), { once: true });
    });

  async function watch(request) {
    if (request.cursor === cursor()) await wait(request.wait_ms ?? 0);
    const same = request.cursor === cursor();
    return { from: request.cursor ?? null, to: cursor(), resync: !same, runs: [], orders: [], blocks: [] };
  }

  function page(request) {
    const all = scenes[state.scene].events[request.run];
    if (!all) return null;
    const kinds = [...(request.kinds ?? []), ...(request.filter?.kinds ?? [])];
    const steps = request.filter?.steps ?? [];
    const fits = (event) => (kinds.length === 0 || kinds.includes(event.kind)) && (steps.length === 0 || steps.includes(event.step));
    const fitting = all.events.filter(fits);
    const limit = Math.min(request.limit, 512);
    const backwards = (request.before ?? null) !== null;
    const events = backwards
      ? fitting.filter((event) => event.seq < request.before).slice(-limit)
      : fitting.filter((event) => event.seq > request.after).slice(0, limit);
    const last = events.at(-1)?.seq ?? (backwards ? request.before : Math.max(request.after, all.events.at(-1)?.seq ?? 0));
    const begin = events[0]?.seq;
    const older = begin !== undefined && fitting.some((event) => event.seq < begin);
    return { ...all.page, events, cursor: last, ended: all.ended && last >= (all.events.at(-1)?.seq ?? 0), first: begin ?? null, has_older: older };
  }

  async function events(request) {
    const now = page(request);
    if (!now) throw { code: 'not_found', message: `there is no run ${request.run}`, hint: null };
    if (now.events.length > 0 || now.ended || !request.wait_ms) return now;
    await wait(request.wait_ms);
    return page(request) ?? now;
  }

  async function answer(command, given) {
    const request = given?.request ?? {};
    state.asked.push(command);
    if (command.startsWith('plugin:event|')) return 1;
    if (command === 'watch') return watch(request);
    if (command === 'run_events') return events(request);
    if (command === 'app_settings_save') return (settings = given.settings);
    if (command === 'app_take_navigation') return [];
    if (command === 'app_settings' && settings) return settings;
    if (request.wait_ms > 0) await wait(request.wait_ms);
    const found = recorded(command, request);
    if (found && 'err' in found) throw found.err;
    // The window shows the theme that the operator set: here the one that the case asks for.
    if (found && command === 'app_settings') return { ...found.ok, theme };
    if (found) return command === 'run_list' ? { ...found.ok, cursor: cursor() } : found.ok;
    const decides = (one) => !command.startsWith('block_') || DECISION.every((name) => same(one.request[name], request[name]));
    const step = steps.find((one) => one.from === state.scene && one.command === command && (command === 'order_add' || (names(one.request, request) && decides(one))));
    if (step) {
      setTimeout(() => move(step.to), 0);
      return step.answer;
    }
    const unknown = NAMES.some((name) => typeof request[name] === 'string') && scenes[state.scene].answers.some((one) => one.command === command);
    if (unknown) throw { code: 'not_found', message: 'there is nothing of this name', hint: null };
    state.unanswered.push(`${command} ${JSON.stringify(given)}`);
    throw `not recorded: ${command}`;
  }

  let callbacks = 0;
  window.__TAURI_INTERNALS__ = {
    metadata: { currentWindow: { label: 'main' }, currentWebview: { label: 'main', windowLabel: 'main' } },
    plugins: {},
    transformCallback: () => (callbacks += 1),
    unregisterCallback: () => undefined,
    convertFileSrc: (path) => path,
    invoke: async (command, given) => copy(await answer(command, given)),
  };
  window.__TAURI_EVENT_PLUGIN_INTERNALS__ = { unregisterListener: () => undefined };
})();
