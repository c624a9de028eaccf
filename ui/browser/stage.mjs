// The built UI in Chromium, against recorded scenes: a server for ui/dist with the app's own content security
// policy, and pages that begin at a scene.

import { existsSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { delimiter, dirname, extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

export const ui = dirname(dirname(fileURLToPath(import.meta.url)));
export const root = dirname(ui);
const dist = join(ui, 'dist');
const recordingFile = join(root, 'target', 'recording', 'recording.json');
const playback = readFileSync(join(ui, 'browser', 'playback.js'), 'utf8');
export const axe = readFileSync(join(ui, 'node_modules', 'axe-core', 'axe.min.js'), 'utf8');

const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml', '.png': 'image/png', '.woff2': 'font/woff2' };
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Where Chromium is, or undefined. */
export function findChromium() {
  const folders = (process.env.PATH ?? '').split(delimiter);
  const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) => existsSync(path));
}

/** What the desktop suite recorded, or undefined. */
export function findRecording() {
  return existsSync(recordingFile) ? JSON.parse(readFileSync(recordingFile, 'utf8')) : undefined;
}

function serve() {
  const policy = JSON.parse(readFileSync(join(root, 'src-tauri', 'tauri.conf.json'), 'utf8')).app.security.csp;
  const csp = typeof policy === 'string' ? policy : Object.entries(policy).map(([name, value]) => `${name} ${[value].flat().join(' ')}`).join('; ');
  const server = createServer((request, response) => {
    const path = normalize(decodeURIComponent(new URL(request.url, 'http://ui').pathname));
    const file = join(dist, path === '/' ? 'index.html' : path);
    if (!file.startsWith(dist) || !existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': csp });
    response.end(readFileSync(file));
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));
}

/** Opens a browser over the built UI. */
export async function openStage(recording) {
  if (!existsSync(join(dist, 'assets'))) throw new Error('ui/dist is not built: npm run build in ui');
  const server = await serve();
  const browser = await chromium.launch({ executablePath: findChromium(), args: FLAGS });
  const address = `http://127.0.0.1:${server.address().port}/`;

  /** A page at a route, in a scene. Whatever it complains of is in `faults`. */
  async function open(route, { scene = 0, theme = 'dark', width = 1280, height = 800 } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, reducedMotion: 'reduce', colorScheme: theme });
    const page = await context.newPage();
    const faults = [];
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('console', (message) => message.type() === 'error' && faults.push(`console: ${message.text()}`));
    await page.addInitScript({ content: `{ const recording = ${JSON.stringify(recording)}, first = ${scene}, theme = '${theme}';\n${playback} }` });
    await page.addInitScript(`localStorage.setItem('sdf.theme', '${theme}')`);
    await page.goto(`${address}#${route}`);
    await page.waitForSelector('#app > *');
    const check = async () => {
      const unanswered = await page.evaluate(() => window.__PLAYBACK__.unanswered);
      const all = [...faults, ...unanswered.map((call) => `not recorded: ${call}`)];
      if (all.length > 0) throw new Error(all.slice(0, 5).join('\n'));
    };
    return { page, faults, check, close: () => context.close() };
  }

  return {
    open,
    async close() {
      await browser.close();
      server.close();
    },
  };
}
