/** The reference of the chart's values, which `make generate` writes from the comments of values.yaml. */
import { parse, stringify } from 'yaml';
import { wrap } from './docs.ts';

/** A schema of values, as far as it says which of them have values below. */
interface ValueSchema {
  readonly properties?: Readonly<Record<string, ValueSchema>>;
}

/** First the values that are in no section, then each section with its comment. */
export function valuesReference(values: string, schema: ValueSchema): string {
  const defaults = parse(values) as Record<string, unknown>;
  const comments = commentsOf(values);
  const entry = (path: readonly string[]): string => {
    const name = path.join('.');
    const value = path.reduce<unknown>((one, key) => (one as Record<string, unknown>)[key], defaults);
    return wrap(`- \`${name}\` (default \`${flow(value)}\`): ${comments.get(name) ?? ''}`);
  };
  const list = (names: readonly string[]): string =>
    names.flatMap((name) => leaves(schema.properties?.[name], [name]).map(entry)).join('\n');
  const isSection = (name: string): boolean => schema.properties?.[name]?.properties !== undefined;
  const names = Object.keys(defaults);
  const sections = names.filter(isSection).map((name) => {
    const comment = wrap(comments.get(name) ?? '').replaceAll('\n  ', '\n');
    return [`### ${name}`, ...(comment === '' ? [] : [comment]), list([name])].join('\n\n');
  });
  return [list(names.filter((name) => !isSection(name))), ...sections].join('\n\n');
}

function leaves(schema: ValueSchema | undefined, path: readonly string[]): (readonly string[])[] {
  if (schema?.properties === undefined) return [path];
  return Object.entries(schema.properties).flatMap(([name, one]) => leaves(one, [...path, name]));
}

function flow(value: unknown): string {
  return stringify(value, { collectionStyle: 'flow', lineWidth: 0 })
    .trim()
    .replaceAll(/\s+/gu, ' ')
    .replace('""', "''");
}

/** The comments before values, by their paths. A value without one has that of the value before it, or of its section. */
function commentsOf(values: string): Map<string, string> {
  const comments = new Map<string, string>();
  let path: string[] = [];
  let lines: string[] = [];
  let before = '';
  for (const line of values.split('\n')) {
    const { indent = '', comment, key } = /^(?<indent> *)(?:# ?(?<comment>.*)|(?<key>\w+):)/u.exec(line)?.groups ?? {};
    if (key !== undefined) {
      path = [...path.slice(0, indent.length / 2), key];
      before = lines.join(' ') || before;
      comments.set(path.join('.'), before);
    }
    lines = comment === undefined ? [] : [...lines, comment.trim()];
    if (line === '') before = '';
  }
  return comments;
}
