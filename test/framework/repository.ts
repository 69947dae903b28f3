import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const root = join(import.meta.dirname, '../..');

/**
 * Makes a repository of its own in `folder`, with the files of this one as they are now in one commit. Its changelog has
 * an entry that is not released, also where this one has none.
 */
export function copyRepository(folder: string): void {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const list = execFileSync('git', args, { cwd: root, encoding: 'utf8' });
  for (const file of list.split('\0').filter((name) => name !== '')) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    copyFileSync(join(root, file), join(folder, file));
  }
  const changelog = join(folder, 'CHANGELOG.md');
  const [before, after] = readFileSync(changelog, 'utf8').split('## [Unreleased]\n');
  writeFileSync(changelog, `${before}## [Unreleased]\n\n### Tested\n\n- An entry.\n${after}`);
  const git = (...words: string[]): Buffer => execFileSync('git', words, { cwd: folder });
  git('init', '--quiet');
  git('config', 'user.name', 'Test');
  git('config', 'user.email', 'test@example.com');
  git('add', '--all', '--force');
  git('commit', '--quiet', '--message', 'start');
}
