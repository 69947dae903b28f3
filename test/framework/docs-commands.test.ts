/** What the commands of the pages have in common. Other tests run most of them. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fencesOf } from './markdown.ts';
import { userPages } from './yaml-examples.ts';

const root = join(import.meta.dirname, '..', '..');
const chart = 'charts/bottlerocket-update-operator';
const decisions = readdirSync(join(root, 'docs/adr')).map((name) => `docs/adr/${name}`);
const otherPages = ['CONTRIBUTING.md', `${chart}/README.md`, ...decisions];

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

function blocksIn(pages: readonly string[]): string[] {
  return pages.flatMap((page) => fencesOf(read(page)).flatMap(({ info, text }) => (info === 'sh' ? text : [])));
}

describe('the commands of the pages', () => {
  const commands = blocksIn(userPages);
  const all = [...commands, read(`${chart}/templates/NOTES.txt`)].join('\n').replaceAll('\\\n', ' ');

  it('apply objects on the server, where nothing of another field manager is lost', () => {
    expect(all.match(/^.*kubectl apply (?!.*--server-side).*$/gmu)).toBeNull();
  });

  it('apply the configuration under one field manager only', () => {
    expect(all.match(/^.*--field-manager.*$/gmu)).toBeNull();
  });

  it('do not pause and resume in one block, which is copied as a whole', () => {
    expect(commands.filter((text) => text.includes('"paused":true') && text.includes('"paused":false'))).toEqual([]);
  });

  it('uncordon a node in no block with other commands, which may be copied for these', () => {
    expect(commands.filter((text) => /kubectl uncordon .*\n.*kubectl /su.test(text))).toEqual([]);
  });

  it('mean the same in zsh, which has no comments for what is typed, and where brackets outside of quotes match files', () => {
    const bare = [...commands, ...blocksIn(otherPages)].join('\n').replaceAll(/'[^']*'|"[^"]*"/gu, '""');
    expect(bare.match(/^.*(?:(?<=^|\s)#|\S\[|[*?]).*$/gmu)).toBeNull();
  });

  it('read all lines of pods that a selector selects, of which kubectl shows ten by default', () => {
    expect(all.match(/^ *kubectl logs (?=.*-l )(?!.*--tail).*$/gmu)).toBeNull();
  });

  it('take what is new from the chart when they upgrade it', () => {
    expect(all.match(/^ *helm upgrade (?!.*--reset-then-reuse-values).*$/gmu)).toBeNull();
  });
});
