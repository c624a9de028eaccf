// What an operator does, by keys alone.

const id = (name) => `[data-testid="${name}"]`;
const PATIENCE = 15_000;

/** Presses Tab until the focus is on something of this selector. */
async function tabTo(page, selector, most = 150) {
  for (let pressed = 0; pressed < most; pressed += 1) {
    const there = await page.evaluate((wanted) => document.activeElement?.matches(wanted) ?? false, selector);
    if (there) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${selector} is not reached by ${most} times Tab`);
}

/** Presses Tab until the focus is in the field with this label, and types into it. */
async function typeInto(page, label, text) {
  for (let pressed = 0; pressed < 80; pressed += 1) {
    const there = await page.evaluate((wanted) => [...(document.activeElement?.labels ?? [])].some((one) => one.textContent.trim().startsWith(wanted)), label);
    if (there) return page.keyboard.type(text);
    await page.keyboard.press('Tab');
  }
  throw new Error(`the field ${label} is not reached by Tab`);
}

const until = (page, condition, given) => page.waitForFunction(condition, given, { timeout: PATIENCE });
const focusedBlock = (page) => page.evaluate(() => document.activeElement?.closest('[data-block]')?.dataset.block ?? null);

async function nextBlock(page, before) {
  await page.keyboard.press('b');
  await until(page, (old) => {
    const now = document.activeElement?.closest('[data-block]')?.dataset.block ?? null;
    return now !== null && now !== old;
  }, before ?? '');
  return focusedBlock(page);
}

/** Goes to the card of a block with the keys of the inbox, and waits until it may be decided. */
async function cardOf(page, block) {
  await page.waitForSelector(id('block-card'));
  let at = null;
  for (let pressed = 0; pressed < 10 && at !== block; pressed += 1) at = await nextBlock(page, at);
  if (at !== block) throw new Error(`${block} is not reached by b`);
  await page.waitForSelector(`[data-block="${block}"][data-phase="armed"]`);
}

/** Confirms in the dialog that is open, by keys. */
async function confirm(page, word) {
  const selector = `:is([role="dialog"], [role="alertdialog"]) button`;
  await page.waitForSelector(selector);
  for (let pressed = 0; pressed < 40; pressed += 1) {
    const there = await page.evaluate(
      ([wanted, text]) => document.activeElement?.matches(wanted) && document.activeElement.textContent.trim().startsWith(text),
      [selector, word],
    );
    if (there) return page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
  }
  throw new Error(`the dialog's ${word} is not reached by Tab`);
}

const stepOf = (recording, command, nth = 0) => recording.steps.filter((step) => step.command === command)[nth];

/** The flows: name, where it begins, what is done. */
export function flowsOf(recording) {
  const { names } = recording;
  const amend = stepOf(recording, 'block_amend');
  const deny = stepOf(recording, 'block_deny');
  const revoke = stepOf(recording, 'policy_revoke');
  const merge = stepOf(recording, 'run_merge');
  const stop = stepOf(recording, 'run_stop');
  const resume = stepOf(recording, 'orders_pause');
  const add = stepOf(recording, 'order_add');
  const decided = (block) => `[data-block="${block}"] ${id('decision')}`;
  return [
    {
      name: 'amend_with_a',
      route: '/inbox',
      scene: amend.from,
      async run(page) {
        await cardOf(page, names.held_block);
        await page.keyboard.press('a');
        await page.waitForSelector(decided(names.held_block));
      },
    },
    {
      name: 'deny_with_a_reason_then_undo_with_u',
      route: '/inbox',
      scene: deny.from,
      async run(page) {
        const block = deny.request.block;
        await cardOf(page, block);
        await tabTo(page, `[data-block="${block}"] ${id('deny-tell')}`);
        await page.keyboard.press('Enter');
        await page.waitForSelector('[role="dialog"]');
        await tabTo(page, 'textarea');
        await page.keyboard.type('Use the mirror instead.');
        await page.waitForSelector(`${id('deny-send')}[data-armed="true"]`);
        await page.keyboard.press('Control+Enter');
        await page.waitForSelector(decided(block));
        await page.waitForSelector(`[data-block="${block}"] ${id('undo')}`);
        await tabTo(page, `[data-block="${block}"] ${id('undo')}`);
        await page.keyboard.press('u');
        await page.waitForSelector(`[data-block="${block}"][data-phase="undone"], [data-block="${block}"][data-phase="shown"], [data-block="${block}"][data-phase="armed"]`);
      },
    },
    {
      name: 'cycle_through_the_inbox_with_b',
      route: '/inbox',
      scene: 0,
      async run(page) {
        await page.waitForSelector(id('block-card'));
        const first = await nextBlock(page, null);
        const second = await nextBlock(page, first);
        if (first === second) throw new Error('b stays where it is');
      },
    },
    {
      name: 'merge_from_the_changes',
      route: `/run/${names.review}/changes`,
      scene: merge.from,
      async run(page) {
        await page.waitForSelector(id('diff-file'));
        await tabTo(page, id('merge'));
        await page.keyboard.press('Enter');
        await confirm(page, 'Merge');
        await until(page, (selector) => /merged/i.test(document.querySelector(selector)?.textContent ?? ''), id('run-state'));
      },
    },
    {
      name: 'revoke_an_amendment',
      route: '/policy',
      scene: revoke.from,
      async run(page) {
        await page.waitForSelector(id('policy-row'));
        const row = `${id('policy-row')}[data-amendment="${revoke.request.amendment}"]`;
        await tabTo(page, `${row} ${id('revoke')}`);
        await page.keyboard.press('Enter');
        await confirm(page, 'Revoke');
        await until(page, (to) => window.__PLAYBACK__.scene === to, revoke.to);
      },
    },
    {
      name: 'go_places_and_back_with_the_palette',
      route: '/',
      scene: 0,
      async run(page) {
        await page.waitForSelector(id('board'));
        await page.keyboard.press('Control+k');
        await page.waitForSelector(id('palette'));
        await page.keyboard.type('go to policy');
        await page.keyboard.press('Enter');
        await until(page, () => location.hash.startsWith('#/policy'));
        await page.keyboard.press('g');
        await page.keyboard.press('b');
        await until(page, () => location.hash === '#/');
      },
    },
    {
      name: 'resume_the_queue_from_the_palette',
      route: '/',
      scene: resume.from,
      async run(page) {
        await page.waitForSelector(id('board'));
        await page.keyboard.press('Control+k');
        await page.waitForSelector(id('palette'));
        await page.keyboard.type('resume queue');
        await page.keyboard.press('Enter');
        await until(page, (to) => window.__PLAYBACK__.scene === to, resume.to);
      },
    },
    {
      name: 'open_a_run_with_j_and_enter',
      route: '/',
      scene: 0,
      async run(page) {
        await page.waitForSelector(id('run-row'));
        await page.keyboard.press('j');
        await page.keyboard.press('Enter');
        await until(page, () => /^#\/(run|inbox|order)\//.test(location.hash));
      },
    },
    {
      name: 'stop_a_run',
      route: `/run/${names.working}`,
      scene: stop.from,
      async run(page) {
        await page.waitForSelector(id('stop-run'));
        await tabTo(page, id('stop-run'));
        await page.keyboard.press('Enter');
        await confirm(page, 'Stop run');
        await until(page, (selector) => /cancelled/i.test(document.querySelector(selector)?.textContent ?? ''), id('run-state'));
      },
    },
    {
      name: 'write_an_order_and_queue_it',
      route: '/',
      scene: add.from,
      async run(page) {
        await page.waitForSelector(id('board'));
        await page.keyboard.press('g');
        await page.keyboard.press('n');
        await page.waitForSelector(id('order-queue'));
        await typeInto(page, 'Title', 'Check the links');
        await typeInto(page, 'Command', 'true');
        await typeInto(page, 'Repository', add.request.source.repo);
        await tabTo(page, id('order-queue'));
        await page.keyboard.press('Enter');
        await until(page, (to) => window.__PLAYBACK__.scene === to, add.to);
      },
    },
  ];
}
