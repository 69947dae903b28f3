import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { programs } from './versions.ts';
import type { Assets } from './versions.ts';

export async function obtainPrograms(): Promise<Assets> {
  const folder = process.env['KUBEBUILDER_ASSETS'] ?? '';
  const entries = programs.map((program) => [program, join(folder, program)] as const);
  for (const [, path] of entries) if (!existsSync(path)) throw new Error(`missing ${path}`);
  return Object.fromEntries(entries) as Assets;
}
