/**
 * The YAML of the pages. The word after `yaml` at the fence says what a block is:
 *
 *     ```yaml               whole objects, as a user applies them
 *     ```yaml BrupopConfig  a part of the one configuration, for a user who has it already
 *     ```yaml values        values of the chart
 *     ```yaml eksctl        a part of an object of another tool, which gives nodes their label
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG_NAME, CONFIG_VERSION, GROUP } from '../../packages/shared/src/api/names.ts';
import { fencesOf } from './markdown.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const OTHER_TOOLS = ['eksctl', 'Karpenter'];
const HEAD = `apiVersion: ${GROUP}/${CONFIG_VERSION}\nkind: BrupopConfig\nmetadata:\n  name: ${CONFIG_NAME}\n`;

/** The pages for users, in the order in which they are read. */
export const userPages = [
  'README.md',
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

export interface YamlExample {
  readonly is: 'object' | 'part' | 'values' | 'label';
  /** A part of an object has been completed. */
  readonly text: string;
  /** Page and line. */
  readonly where: string;
}

/** All YAML of a page, also what its commands are fed. Throws for a block that it cannot classify. */
export function yamlExamplesOf(page: string): YamlExample[] {
  return fencesOf(readFileSync(join(ROOT, page), 'utf8')).flatMap(({ info, text, line }): YamlExample[] => {
    const where = `${page}:${line}`;
    const [language, is, ...others] = info.split(' ');
    if (language === 'sh') return fedBy(text).map((fed) => ({ is: 'object', text: fed, where }));
    if (language !== 'yaml') return [];
    if (others.length === 0) {
      if (is === undefined) return [{ is: 'object', text, where }];
      if (is === 'BrupopConfig') return [{ is: 'part', text: `${HEAD}${text}`, where }];
      if (is === 'values') return [{ is, text, where }];
      if (OTHER_TOOLS.includes(is)) return [{ is: 'label', text, where }];
    }
    throw new Error(`${where}: what is \`\`\`${info}? See test/framework/yaml-examples.ts`);
  });
}

/** What the commands of a block are fed. */
function fedBy(text: string): string[] {
  return [...text.matchAll(/<<'?EOF'?\n(?<fed>.*?)^EOF$/gmsu)].map(({ groups }) => groups?.['fed'] ?? '');
}
