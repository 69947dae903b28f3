import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Image, imageFromDockerfile } from './kubelet/image.ts';

const ROOT = join(import.meta.dirname, '../..');

/** The image that the Dockerfile makes, with the programs in a folder: by default those that `make build` has made. */
export function operatorImage(programs = join(ROOT, 'dist')): Image {
  return imageFromDockerfile(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'), {
    paths: new Map([['/app', programs]]),
    programs: { '/usr/bin/node': process.execPath },
  });
}
