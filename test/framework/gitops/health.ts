/** What GitOps tools make of an object: Flux with the library kstatus, Argo CD with the script of docs/gitops.md. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kstatusCacheFolder } from '../control-plane/cache.ts';
import { obtainPrograms } from '../control-plane/obtain.ts';

export interface Health {
  readonly kstatus: string;
  readonly kstatusMessage: string;
  readonly argo: string;
  readonly argoMessage: string;
}

const LIMIT_MS = 10_000;

/** Builds the program if the cache does not have it, which takes about a minute of one core. */
export async function obtainHealth(): Promise<(object: object) => Health> {
  const { kstatus } = await obtainPrograms({ wanted: ['kstatus'], cacheFolder: kstatusCacheFolder() });
  const page = readFileSync(join(import.meta.dirname, '../../../docs/gitops.md'), 'utf8');
  const script = join(mkdtempSync(join(tmpdir(), 'brupop-health-')), 'health.lua');
  writeFileSync(script, /```lua\n(?<lua>[\s\S]*?)```/u.exec(page)?.groups?.['lua'] ?? '');
  return (object) => {
    const output = execFileSync(kstatus, [script], {
      input: JSON.stringify(object),
      encoding: 'utf8',
      timeout: LIMIT_MS,
    });
    return JSON.parse(output) as Health;
  };
}
