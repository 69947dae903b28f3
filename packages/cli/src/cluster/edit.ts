/** An edit of the configuration that is not applied yet. */
import { parseAllDocuments, Scalar, type ScalarTag } from 'yaml';
import { configSchema, readBrupopConfig } from '@brupop/shared/api/brupop-config';
import {
  CONFIG_KIND,
  CONFIG_NAME,
  CONFIG_VERSION,
  GROUP,
  NODE_GROUP_KIND,
  NODE_GROUP_VERSION,
} from '@brupop/shared/api/names';
import { nodeGroupSchema, readNodeGroup } from '@brupop/shared/api/node-group';
import { unknownFields } from '@brupop/shared/api/spec-schema';
import { UsageError } from './errors.ts';
import type { Objects } from './snapshot.ts';

interface Given {
  readonly apiVersion?: unknown;
  readonly kind?: unknown;
  readonly metadata?: { readonly name?: unknown };
  readonly spec?: unknown;
  readonly status?: unknown;
}

const KINDS = {
  [CONFIG_KIND]: { version: `${GROUP}/${CONFIG_VERSION}`, schema: configSchema },
  [NODE_GROUP_KIND]: { version: `${GROUP}/${NODE_GROUP_VERSION}`, schema: nodeGroupSchema },
};
const EXPECTED = `a ${CONFIG_KIND} named ${CONFIG_NAME} or a ${NODE_GROUP_KIND}`;

/** The booleans of YAML 1.1 besides true and false, which kubectl reads as such. */
const BOOLEANS: ScalarTag = {
  tag: 'tag:yaml.org,2002:bool',
  default: true,
  test: /^(?:[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$/u,
  resolve: (text) => new Scalar(/^(?:y|on)/iu.test(text)),
};

/** As the API server would have the objects after the file was applied whole. Throws UsageError. */
export function withEdits(objects: Objects, file: string, text: string): Objects {
  const options = { merge: true, customTags: [BOOLEANS] };
  const given = Array.from(parseAllDocuments(text, options)).flatMap((document): Given[] => {
    const [problem] = document.errors;
    if (problem !== undefined) throw new UsageError(`${file}: ${problem.message}`);
    const one = document.toJS() as (Given & { readonly items?: unknown }) | null;
    // As in kubectl, an object with items is a list of any kind.
    const items: readonly unknown[] = Array.isArray(one?.items) ? one.items : [one];
    return items.flatMap((item) => (item === null ? [] : [item as Given]));
  });
  if (given.length === 0) throw new UsageError(`${file}: expected ${EXPECTED}, found nothing`);
  return given.reduce((edited, one) => withEdit(edited, file, one), objects);
}

function withEdit(objects: Objects, file: string, given: Given): Objects {
  const { kind, metadata, spec } = given;
  const name = metadata?.name;
  if (kind === CONFIG_KIND && name === CONFIG_NAME) {
    checkFields(CONFIG_KIND, file, given);
    const before = objects.config;
    return { ...objects, config: readBrupopConfig({ ...before, metadata: next(before, CONFIG_NAME), spec }) };
  }
  if (kind === NODE_GROUP_KIND && typeof name === 'string') {
    checkFields(NODE_GROUP_KIND, file, given);
    const before = objects.groups.find((one) => one.metadata.name === name);
    const edited = readNodeGroup({ ...before, metadata: next(before, name), spec });
    return { ...objects, groups: [...objects.groups.filter((one) => one !== before), edited] };
  }
  throw new UsageError(`${file}: expected ${EXPECTED}, found ${JSON.stringify({ kind, name })}`);
}

/** Throws UsageError for what kubectl refuses. A value that is not valid is planned as the controller would. */
function checkFields(kind: keyof typeof KINDS, file: string, given: Given): void {
  const { apiVersion, kind: _, metadata: __, status: ___, ...rest } = given;
  const { version, schema } = KINDS[kind];
  if (apiVersion !== version)
    throw new UsageError(`${file}: ${kind}: expected the apiVersion ${version}, found ${JSON.stringify(apiVersion)}`);
  const [field] = unknownFields(schema, rest);
  if (field !== undefined) throw new UsageError(`${file}: ${kind}: there is no field ${field}`);
}

/** A change of the spec gets the next generation. */
function next(before: Objects['config'] | Objects['groups'][number], name: string): object {
  if (before === undefined) return { name, uid: `new ${name}`, resourceVersion: '0', generation: 1 };
  return { ...before.metadata, generation: (before.metadata.generation ?? 0) + 1 };
}
