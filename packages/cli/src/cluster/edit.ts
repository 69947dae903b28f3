/** An edit of the configuration that is not applied yet. */
import { parseAllDocuments } from 'yaml';
import { readBrupopConfig } from '@brupop/shared/api/brupop-config';
import { CONFIG_KIND, CONFIG_NAME, NODE_GROUP_KIND } from '@brupop/shared/api/names';
import { readNodeGroup } from '@brupop/shared/api/node-group';
import { UsageError } from './errors.ts';
import type { Objects } from './snapshot.ts';

interface Given {
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown };
  readonly spec?: unknown;
}

/** As the API server would have the objects after the file was applied whole. Throws UsageError. */
export function withEdits(objects: Objects, file: string, text: string): Objects {
  const documents = parseAllDocuments(text);
  return documents.reduce((edited, document) => {
    const [problem] = document.errors;
    if (problem !== undefined) throw new UsageError(`${file}: ${problem.message}`);
    const given: unknown = document.toJS();
    return given === null ? edited : withEdit(edited, file, given as Given);
  }, objects);
}

function withEdit(objects: Objects, file: string, { kind, metadata, spec }: Given): Objects {
  const name = metadata?.name;
  if (kind === CONFIG_KIND && name === CONFIG_NAME) {
    const before = objects.config;
    return { ...objects, config: readBrupopConfig({ ...before, metadata: next(before, CONFIG_NAME), spec }) };
  }
  if (kind === NODE_GROUP_KIND && typeof name === 'string') {
    const before = objects.groups.find((one) => one.metadata.name === name);
    const edited = readNodeGroup({ ...before, metadata: next(before, name), spec });
    return { ...objects, groups: [...objects.groups.filter((one) => one !== before), edited] };
  }
  throw new UsageError(
    `${file}: expected a ${CONFIG_KIND} named ${CONFIG_NAME} or a ${NODE_GROUP_KIND}, found ${JSON.stringify({ kind, name })}`,
  );
}

/** A change of the spec gets the next generation. */
function next(before: Objects['config'] | Objects['groups'][number], name: string): object {
  if (before === undefined) return { name, uid: `new ${name}`, resourceVersion: '0', generation: 1 };
  return { ...before.metadata, generation: (before.metadata.generation ?? 0) + 1 };
}
