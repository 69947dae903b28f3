import pc from 'picocolors';
import type { Colors } from './view.ts';

/** Shows lines that change: redrawn in place on a terminal, one line per change elsewhere. */
export interface Screen {
  /** Prints a permanent line above the redrawn lines. */
  say(line: string): void;
  /** Replaces the redrawn lines. `plain` is printed instead if the output is no terminal, or one that cannot redraw. */
  draw(lines: readonly string[], plain: readonly string[]): void;
  /** Ends the redrawing; the last lines stay. */
  end(): void;
  readonly width: number;
  /** Number of lines that can be redrawn. */
  readonly height: number;
  /** None if nothing is redrawn, or with NO_COLOR. */
  readonly colors: Colors;
}

const HIDE_CURSOR = '\u001B[?25l';
const SHOW_CURSOR = '\u001B[?25h';
const CLEAR_BELOW = '\u001B[J';

/** Of standard output, what a screen uses. */
export type Output = Pick<NodeJS.WriteStream, 'isTTY' | 'columns' | 'rows'> & { write(text: string): unknown };

/** @param term - the kind of the terminal; one that is `dumb` redraws nothing */
export function openScreen(output: Output, term = process.env['TERM']): Screen {
  return output.isTTY && term !== 'dumb' ? terminalScreen(output) : plainScreen(output);
}

function terminalScreen(output: Output): Screen {
  let drawn: readonly string[] = [];
  const erase = (): string => (drawn.length === 0 ? '' : `\u001B[${drawn.length}A\r${CLEAR_BELOW}`);
  output.write(HIDE_CURSOR);
  return {
    say(line) {
      output.write(`${erase()}${line}\n${drawn.map((text) => `${text}\n`).join('')}`);
    },
    draw(lines) {
      output.write(`${erase()}${lines.map((text) => `${text}\n`).join('')}`);
      drawn = lines;
    },
    end() {
      drawn = [];
      output.write(SHOW_CURSOR);
    },
    get width() {
      return output.columns;
    },
    get height() {
      return output.rows - 1;
    },
    colors: pc.createColors(pc.isColorSupported),
  };
}

function plainScreen(output: Output): Screen {
  return {
    say: (line) => void output.write(`${line}\n`),
    draw: (_lines, plain) => void output.write(plain.map((line) => `${line}\n`).join('')),
    end: () => undefined,
    width: 160,
    height: Infinity,
    colors: pc.createColors(false),
  };
}
