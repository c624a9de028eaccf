// `node browser/main.mjs` (in ui): every screen in four sizes and both themes, without an accessibility
// fault and without sideways scrolling, every flow by keys alone, and what is done by clicks. With `--pictures` it writes
// docs/screenshots instead. Words choose cases by name.

import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { clicksOf } from './clicks.mjs';
import { flowsOf } from './flows.mjs';
import { overlaysOf, screensOf } from './screens.mjs';
import { axe, findChromium, findRecording, openStage, root } from './stage.mjs';

const SIZES = [[1280, 800], [1920, 1080], [820, 1180], [900, 600]];
const THEMES = ['dark', 'light'];
const PATIENCE = 15_000;
/** Pictures in the light theme, beside those in the dark one. */
const LIGHT = ['board', 'inbox', 'run-changes'];
const LARGEST = 150 * 1024;

const wanted = process.argv.slice(2).filter((word) => !word.startsWith('--'));
const takesPictures = process.argv.includes('--pictures');
const pictures = join(root, 'docs', 'screenshots');
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures = [];

async function test(name, run) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) return;
  const begin = Date.now();
  const seconds = () => `${((Date.now() - begin) / 1000).toFixed(2).padStart(6)} s`;
  try {
    await run();
    counts.passed += 1;
    console.log(`ok       ${seconds()}  ${name}`);
  } catch (error) {
    counts.failed += 1;
    failures.push(`\n---- ${name}\n${error.message}`);
    console.log(`FAILED   ${seconds()}  ${name}`);
  }
}

/** Accessibility faults, as lines. */
async function accessibility(page) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map((one) => `${one.id}: ${one.help}\n    ${one.nodes.slice(0, 3).map((node) => `${node.target.join(' ')}  ${node.failureSummary.split('\n')[1]?.trim() ?? ''}`).join('\n    ')}`);
  });
  return found;
}

/** What is wider than its page. */
function sideways(page) {
  return page.evaluate(() => {
    const wide = [document.scrollingElement, document.querySelector('main')].filter((one) => one && one.scrollWidth > one.clientWidth);
    return wide.map((one) => `${one.tagName} scrolls sideways: ${one.scrollWidth} in ${one.clientWidth}`);
  });
}

async function settle(page, selector) {
  await page.waitForSelector(selector, { timeout: PATIENCE });
  await page.evaluate(() => document.fonts.ready);
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

/** A page in another theme than it was opened in would pass for one that was looked at. */
async function isInTheme(page, theme) {
  const shown = await page.evaluate(() => document.documentElement.dataset.theme);
  if (shown !== theme) throw new Error(`the page is ${shown}, not ${theme}`);
}

async function look(stage, screens, theme) {
  for (const screen of screens) {
    await test(`screens::${screen.name}_${theme}`, async () => {
      const shown = await stage.open(screen.route, { theme, scene: screen.scene ?? 0 });
      const faults = [];
      try {
        for (const [width, height] of SIZES) {
          await shown.page.setViewportSize({ width, height });
          await settle(shown.page, screen.shows);
          await isInTheme(shown.page, theme);
          const found = [...(await accessibility(shown.page)), ...(await sideways(shown.page))];
          faults.push(...found.map((fault) => `${width}×${height}: ${fault}`));
        }
        if (faults.length > 0) throw new Error(faults.join('\n'));
        await shown.check();
      } finally {
        await shown.close();
      }
    });
  }
}

async function lookOver(stage, overlays, theme) {
  for (const overlay of overlays) {
    await test(`overlays::${overlay.name}_${theme}`, async () => {
      const shown = await stage.open(overlay.route, { theme });
      try {
        await settle(shown.page, overlay.shows);
        await overlay.open(shown.page);
        await settle(shown.page, overlay.over);
        await isInTheme(shown.page, theme);
        const faults = await accessibility(shown.page);
        if (faults.length > 0) throw new Error(faults.join('\n'));
        await shown.check();
      } finally {
        await shown.close();
      }
    });
  }
}

async function walk(stage, by, flows) {
  for (const flow of flows) {
    await test(`${by}::${flow.name}`, async () => {
      const shown = await stage.open(flow.route, { scene: flow.scene });
      shown.page.setDefaultTimeout(PATIENCE);
      try {
        await flow.run(shown.page);
        await shown.check();
      } catch (error) {
        const unanswered = await shown.page.evaluate(() => window.__PLAYBACK__.unanswered);
        throw new Error([error.message, ...shown.faults, ...unanswered].join('\n'));
      } finally {
        await shown.close();
      }
    });
  }
}

const pictureName = (screen, theme) => `${screen.name}${theme === 'light' ? '-light' : ''}.png`;

function pictured(screens, overlays) {
  const dark = [...screens, ...overlays].filter((screen) => !screen.unpictured).map((screen) => [screen, 'dark']);
  return [...dark, ...screens.filter((screen) => LIGHT.includes(screen.name)).map((screen) => [screen, 'light'])];
}

async function picture(stage, [screen, theme]) {
  const shown = await stage.open(screen.route, { theme, scene: screen.scene ?? 0 });
  await settle(shown.page, screen.shows);
  if (screen.open) {
    await screen.open(shown.page);
    await settle(shown.page, screen.over);
  }
  await shown.page.waitForLoadState('networkidle');
  await isInTheme(shown.page, theme);
  const whole = await shown.page.screenshot();
  await shown.close();
  const file = join(pictures, pictureName(screen, theme));
  const made = spawnSync('convert', ['png:-', '+dither', '-colors', '64', '-strip', '-define', 'png:compression-level=9', `png8:${file}`], { input: whole });
  if (made.error || made.status !== 0) {
    writeFileSync(file, whole);
    console.log(`${file}: kept as it is; ImageMagick's convert makes it smaller`);
  }
  const { size } = statSync(file);
  if (size > LARGEST) throw new Error(`${file} has ${size} bytes, more than ${LARGEST}`);
  console.log(`${(size / 1024).toFixed(0).padStart(4)} KiB  ${file}`);
}

function close() {
  for (const failure of failures) console.log(failure);
  console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
  process.exitCode = counts.failed > 0 ? 1 : 0;
}

function skip(why) {
  counts.skipped += 1;
  console.log(`skipped    0.00 s  browser: ${why}`);
  close();
}

const recording = findRecording();
if (!findChromium()) skip('Chromium is not installed');
else if (!recording) skip('there is no recording: `npm test -- desktop` makes one');
else {
  const [screens, overlays] = [screensOf(recording), overlaysOf(recording)];
  const stage = await openStage(recording);
  if (takesPictures) {
    mkdirSync(pictures, { recursive: true });
    for (const one of pictured(screens, overlays)) await picture(stage, one);
  } else {
    for (const theme of THEMES) {
      await look(stage, screens, theme);
      await lookOver(stage, overlays, theme);
    }
    await walk(stage, 'keys', flowsOf(recording));
    await walk(stage, 'clicks', clicksOf(recording));
    await test('pictures::every_screen_has_one', () => {
      const absent = pictured(screens, overlays).map(([screen, theme]) => pictureName(screen, theme)).filter((name) => !existsSync(join(pictures, name)));
      if (absent.length > 0) throw new Error(`docs/screenshots has no ${absent.join(', ')}: \`npm run screenshots\` makes them`);
    });
  }
  await stage.close();
  if (!takesPictures) close();
}
