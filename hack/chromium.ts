/** Takes pictures of pages with a Chromium that is installed. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

const LIMIT_MS = 60_000;
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

export interface Picture {
  readonly url: string;
  /** PNG. */
  readonly file: string;
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  /** How long the page may take to draw, on the clock of the page. */
  readonly drawMs: number;
}

/** Throws when Chromium is not installed, or fails. */
export async function takePicture(picture: Picture, program = 'chromium'): Promise<void> {
  const { url, file, width, height, drawMs } = picture;
  const profile = mkdtempSync(join(tmpdir(), 'brupop-chromium-'));
  const own = [`--user-data-dir=${profile}`, `--screenshot=${file}`, `--window-size=${width},${height}`];
  try {
    await promisify(execFile)(program, [...FLAGS, ...own, `--virtual-time-budget=${drawMs}`, url], {
      timeout: LIMIT_MS,
    });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    const message = `expected the program ${program} in PATH, found none: install Chromium, such as the package chromium of Debian`;
    throw new Error(message, { cause: error });
  } finally {
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}
