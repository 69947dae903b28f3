/** Takes pictures of the page with a Chromium that is installed. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { takePicture } from '../chromium.ts';

const DRAW_MS = 8_000;
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
        await takePicture({ url: `${pageUrl}/?${query.toString()}`, file, width, height, drawMs: DRAW_MS });
      }
}
