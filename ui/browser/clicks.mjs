// What an operator does with the mouse: cards of files and of bounds, and the commits of a review.

const id = (name) => `[data-testid="${name}"]`;

/** The card of a block, once it takes a decision. */
async function cardOf(page, block) {
  const card = `[data-block="${block}"]`;
  await page.waitForSelector(`${card}[data-phase="armed"]`);
  return page.locator(card);
}

/** What a card says after it was decided. */
async function decision(page, block, words) {
  const said = page.locator(`[data-block="${block}"] ${id('decision')}`);
  await said.waitFor();
  const text = await said.textContent();
  if (!text.includes(words)) throw new Error(`the card says ${JSON.stringify(text)} and not ${words}`);
}

async function says(locator, words) {
  await locator.filter({ hasText: words }).first().waitFor();
}

/** The flows: name, where it begins, what is done. */
export function clicksOf(recording) {
  const { names } = recording;
  const about = (block) => recording.steps.find((step) => step.request.block === block);
  const [write, output, disk, processes] = [names.write_block, names.output_block, names.disk_block, names.processes_block].map(about);
  const commits = recording.scenes[0].answers.find((one) => one.command === 'run_commits' && one.given.request.run === names.review).answer.ok.commits;
  return [
    {
      name: 'a_held_write_goes_on_by_a_rule_of_the_menu',
      route: `/inbox/${names.write_block}`,
      scene: write.from,
      async run(page) {
        const card = await cardOf(page, names.write_block);
        await says(card, 'File wall');
        await card.locator(id('amend-menu')).click();
        const option = page.locator(`${id('amend-option')}[data-rule="${write.request.rule}"]`);
        await says(option, 'read and write everything in');
        await option.click();
        await page.locator(id('amend-chosen')).click();
        await decision(page, names.write_block, '1 action let go');
        await page.waitForFunction((to) => window.__PLAYBACK__.scene === to, write.to);
      },
    },
    {
      name: 'a_bound_is_raised_to_a_figure_of_ones_own',
      route: `/inbox/${names.output_block}`,
      scene: output.from,
      async run(page) {
        const card = await cardOf(page, names.output_block);
        await says(card, 'The run is paused until you decide.');
        await card.locator(id('amend-menu')).click();
        const field = page.locator(id('amend-limit'));
        for (const [wrong, words] of [['16', 'Write a number and a unit'], ['1KiB', 'too small to be meant'], ['64KiB', 'The bound is 64 KiB already']]) {
          await field.fill(wrong);
          await says(page.locator('[role="dialog"]'), words);
          await page.locator(`${id('amend-chosen')}[aria-disabled="true"]`).waitFor();
        }
        await field.fill(output.request.limit);
        await says(page.locator(id('amend-chosen')), 'Raise output to 16 MiB for this run');
        await page.locator(id('amend-chosen')).click();
        await decision(page, names.output_block, 'the run goes on');
        await page.waitForFunction((to) => window.__PLAYBACK__.scene === to, output.to);
      },
    },
    {
      name: 'a_run_at_its_bound_is_stopped_after_a_question',
      route: `/inbox/${names.disk_block}`,
      scene: disk.from,
      async run(page) {
        const card = await cardOf(page, names.disk_block);
        await card.locator(id('deny')).click();
        await page.locator(id('deny-reason')).fill(disk.request.reason);
        await page.locator(`${id('deny-send')}[data-armed="true"]`).click();
        await decision(page, names.disk_block, 'the run is stopped');
        await page.waitForFunction((to) => window.__PLAYBACK__.scene === to, disk.to);
      },
    },
    {
      name: 'a_bound_that_a_run_goes_on_at_is_raised_for_later_runs',
      route: '/inbox',
      scene: processes.from,
      async run(page) {
        await page.waitForSelector(id('block-card'));
        await says(page.locator(`${id('inbox')} [role="status"]`), '1 asks about later runs');
        await page.evaluate((block) => (location.hash = `#/inbox/${block}`), names.processes_block);
        const card = await cardOf(page, names.processes_block);
        await says(card, 'Goes on');
        await card.locator(id('amend')).click();
        await decision(page, names.processes_block, 'for every run of this work order');
      },
    },
    {
      name: 'one_commit_of_a_review_is_looked_at_by_itself',
      route: `/run/${names.review}/changes`,
      scene: 0,
      async run(page) {
        await page.waitForSelector(id('diff-file'));
        const all = await page.locator(id('diff-file')).count();
        const [newest] = commits;
        await says(page.locator(id('commits')), `${commits.length} commits`);
        await page.locator(`[data-commit="${newest.sha}"]`).click();
        await page.waitForFunction(([selector, more]) => document.querySelectorAll(selector).length < more, [id('diff-file'), all]);
        await says(page.locator('.diff'), 'The third time it gives up.');
        await page.locator(id('commit-all')).click();
        await page.waitForFunction(([selector, count]) => document.querySelectorAll(selector).length === count, [id('diff-file'), all]);
      },
    },
  ];
}
