/**
 * Runs a command of `kubectl brupop` on a terminal of 100 columns, and draws what it printed as SVG:
 * `KUBECONFIG=FILE node hack/cli/picture.ts OUT.svg status`, for the fleet that `make demo` or `npm run demo -- --keep`
 * names. With OUT.png, it is the page that the command prints, in a Chromium that is installed:
 * `KUBECONFIG=FILE node hack/cli/picture.ts OUT.png report`.
 */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { takePicture } from '../chromium.ts';

const PROGRAM = join(import.meta.dirname, '../../dist/kubectl-brupop');
const COLUMNS = 100;
/** Pixels. */
const FONT = { size: 14, width: 8.43, line: 20 } as const;
const MARGIN = 16;
const BACKGROUND = '#161b22';
const PLAIN = '#e6edf3';
const COLORS: Readonly<Record<string, string>> = { 31: '#ff7b72', 32: '#7ee787', 33: '#e3b341' };

interface Span {
  readonly text: string;
  readonly color: string;
}

/** Of a line with colors as escape sequences. */
export function spansOf(line: string): Span[] {
  let color = PLAIN;
  // oxlint-disable-next-line no-control-regex
  return line.split(/\u001B\[(\d+)m/u).flatMap((part, index) => {
    if (index % 2 === 0) return part === '' ? [] : [{ text: part, color }];
    color = COLORS[part] ?? PLAIN;
    return [];
  });
}

export function svgOf(lines: readonly string[]): string {
  const width = Math.ceil(2 * MARGIN + COLUMNS * FONT.width);
  const height = 2 * MARGIN + lines.length * FONT.line;
  const texts = lines.map((line, index) => {
    const spans = spansOf(line).map(({ text, color }) => `<tspan fill="${color}">${escapeXml(text)}</tspan>`);
    return `<text x="${MARGIN}" y="${MARGIN + (index + 0.75) * FONT.line}" xml:space="preserve">${spans.join('')}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">
<rect width="100%" height="100%" rx="6" fill="${BACKGROUND}"/>
<g font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="${FONT.size}">
${texts.join('\n')}
</g>
</svg>
`;
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function printed(args: readonly string[]): string[] {
  const command = `stty cols ${COLUMNS} && '${process.execPath}' '${PROGRAM}' ${args.join(' ')}`;
  const env = { ...process.env, TERM: 'xterm', NO_COLOR: '' };
  const text = execFileSync('script', ['-qec', command, '/dev/null'], {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  return [`$ kubectl brupop ${args.join(' ')}`, ...text.replaceAll('\r', '').trimEnd().split('\n')];
}

/** Pixels: what the page of a small fleet needs. */
const PAGE = { width: 1180, height: 1190 } as const;

async function takePageOf(args: readonly string[], out: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'brupop-page-'));
  const page = join(folder, 'page.html');
  try {
    const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit'];
    writeFileSync(page, execFileSync(process.execPath, [PROGRAM, ...args], { stdio }));
    await takePicture({ url: pathToFileURL(page).href, file: resolve(out), ...PAGE, drawMs: 1000 });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function main([out, ...args]: readonly string[]): Promise<void> {
  if (out === undefined) throw new Error('expected OUT.svg or OUT.png and a command, found none');
  if (out.endsWith('.png')) await takePageOf(args, out);
  else writeFileSync(out, svgOf(printed(args)));
}

if (import.meta.main) await main(process.argv.slice(2));
