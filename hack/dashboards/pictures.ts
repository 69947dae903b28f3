/** Takes pictures of the page with a Chromium that is installed. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const LIMIT_MS = 60_000;
/** How long the page may take to draw, on the clock of the page. */
const DRAW_MS = 8_000;
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--hide-scrollbars',
];
/** Pixels: of a laptop and of a screen on a wall, and what the dashboards need. */
const WIDTHS = { laptop: 1280, wall: 2560 } as const;
const HEIGHTS = { fleet: 1440, operator: 1975 } as const;

export async function takePictures(pageUrl: string, folder: string, minutes: number): Promise<void> {
  mkdirSync(folder, { recursive: true });
  for (const [dashboard, height] of Object.entries(HEIGHTS))
    for (const theme of ['dark', 'light'])
      for (const [size, width] of Object.entries(WIDTHS)) {
        const query = new URLSearchParams({ dashboard, theme, minutes: String(minutes), once: '' });
        const file = join(folder, `${dashboard}-${theme}-${size}.png`);
        await takePicture(`${pageUrl}/?${query.toString()}`, file, `${width},${height}`);
      }
}

async function takePicture(url: string, file: string, pixels: string): Promise<void> {
  const profile = mkdtempSync(join(tmpdir(), 'brupop-chromium-'));
  const own = [`--user-data-dir=${profile}`, `--screenshot=${file}`, `--window-size=${pixels}`];
  try {
    const all = [...FLAGS, ...own, `--virtual-time-budget=${DRAW_MS}`, url];
    await promisify(execFile)('chromium', all, { timeout: LIMIT_MS });
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}
