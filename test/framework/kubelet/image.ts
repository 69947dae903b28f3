import type { PathMap } from './paths.ts';
import { Unsupported } from './pod.ts';

/** A container image as local files and programs. */
export interface Image {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** A path inside the image. */
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
  /** Folders of the image and where they are here, for example `/app` → `dist`. */
  readonly paths: PathMap;
  /** Programs of the image and where they are here, for example `node` → `process.execPath`. */
  readonly programs: Readonly<Record<string, string>>;
}

interface Read {
  entrypoint: string[];
  cmd: string[];
  workdir: string;
  env: Record<string, string>;
}

const WITHOUT_EFFECT_HERE = new Set(['ARG', 'COPY', 'ADD', 'RUN', 'LABEL', 'EXPOSE', 'USER']);

/**
 * The image that the last stage of a Dockerfile makes: ENTRYPOINT and CMD (JSON form), WORKDIR and
 * ENV. Throws Unsupported for instructions that change how a container runs and are not known here.
 */
export function imageFromDockerfile(text: string, files: Pick<Image, 'paths' | 'programs'>): Image {
  let read = emptyStage();
  for (const [instruction, rest] of instructionsOf(text)) {
    if (instruction === 'FROM') read = emptyStage();
    else apply(read, instruction, rest);
  }
  return { ...read, ...files };
}

function emptyStage(): Read {
  return { entrypoint: [], cmd: [], workdir: '/', env: {} };
}

/** The instructions of a Dockerfile, each in one line. */
export function instructionsOf(text: string): [string, string][] {
  const lines = text
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replaceAll(/\\\s*\n/g, ' ')
    .split('\n');
  return lines
    .map((line) => /^\s*(\w+)\s+(.*?)\s*$/.exec(line))
    .flatMap((match) => (match === null ? [] : [[(match[1] ?? '').toUpperCase(), match[2] ?? '']]));
}

function apply(read: Read, instruction: string, rest: string): void {
  if (instruction === 'ENTRYPOINT') read.entrypoint = jsonForm(instruction, rest);
  else if (instruction === 'CMD') read.cmd = jsonForm(instruction, rest);
  else if (instruction === 'WORKDIR') read.workdir = rest;
  else if (instruction === 'ENV') Object.assign(read.env, assignments(rest));
  else if (!WITHOUT_EFFECT_HERE.has(instruction))
    throw new Unsupported(`Dockerfile: the stand-in kubelet does not know ${instruction} ${rest}`);
}

function jsonForm(instruction: string, rest: string): string[] {
  if (!rest.startsWith('['))
    throw new Unsupported(`Dockerfile: expected the JSON form of ${instruction}, found ${rest}`);
  return JSON.parse(rest) as string[];
}

function assignments(rest: string): Record<string, string> {
  const pairs = [...rest.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g)];
  return Object.fromEntries(pairs.map(([, name = '', quoted, plain]) => [name, quoted ?? plain ?? '']));
}
