// Every screen, by its route and by what is on it once it is there.

const id = (name) => `[data-testid="${name}"]`;

/** The screens, for the names of a recording. */
export function screensOf(recording) {
  const { review, held, busy, merged } = recording.names;
  const order = recording.scenes[0].answers.find((one) => one.command === 'order_list').answer.ok.orders[0]?.id;
  return [
    { name: 'board', route: '/', shows: id('run-row') },
    { name: 'run-feed', route: `/run/${review}/feed`, shows: id('feed-row') },
    { name: 'run-blocks', route: `/run/${busy}/blocks`, shows: id('block-card') },
    { name: 'run-changes', route: `/run/${review}/changes`, shows: id('diff-file') },
    { name: 'run-merged', route: `/run/${merged}/changes`, shows: id('run-state') },
    { name: 'run-policy', route: `/run/${busy}/policy`, shows: 'main h2, main h3, main table' },
    { name: 'run-provisioning', route: `/run/${review}/provisioning`, shows: id('run-state') },
    { name: 'run-details', route: `/run/${held}/details`, shows: id('run-state') },
    { name: 'inbox', route: '/inbox', shows: id('block-card') },
    { name: 'policy', route: '/policy', scene: 4, shows: id('policy-row') },
    { name: 'doctor', route: '/doctor', shows: id('doctor-wall') },
    { name: 'settings', route: '/settings', shows: id('theme-switch') },
    { name: 'new-order', route: '/orders/new', shows: id('order-submit') },
    ...(order ? [{ name: 'order', route: `/order/${order}`, shows: 'main h1, main h2' }] : []),
    { name: 'first-run', route: '/first-run', shows: id('first-run') },
  ];
}

/** Things that open over a screen. */
export function overlaysOf(recording) {
  const { review, write_block: write, output_block: output } = recording.names;
  const menuOf = (block) => (page) => page.locator(`[data-block="${block}"] ${id('amend-menu')}`).click();
  const armed = (block) => `[data-block="${block}"][data-phase="armed"]`;
  return [
    { name: 'palette', route: '/', shows: id('board'), open: (page) => page.keyboard.press('Control+k'), over: id('palette') },
    { name: 'help', route: '/', shows: id('board'), open: (page) => page.keyboard.press('?'), over: id('help') },
    { name: 'amend-menu', route: '/inbox', shows: `${id('block-card')}[data-phase="armed"]`, open: (page) => page.locator(id('amend-menu')).first().click(), over: id('amend-option') },
    { name: 'file-menu', route: `/inbox/${write}`, shows: armed(write), open: menuOf(write), over: id('amend-option'), unpictured: true },
    { name: 'bound-menu', route: `/inbox/${output}`, shows: armed(output), open: menuOf(output), over: id('amend-limit'), unpictured: true },
    { name: 'deny-dialog', route: '/inbox', shows: `${id('block-card')}[data-phase="armed"]`, open: (page) => page.locator(id('deny-tell')).first().click(), over: '[role="dialog"]' },
    { name: 'merge-dialog', route: `/run/${review}/changes`, shows: id('diff-file'), open: (page) => page.locator(id('merge')).click(), over: '[role="dialog"], [role="alertdialog"]' },
  ];
}
