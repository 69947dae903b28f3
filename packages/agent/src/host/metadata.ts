/** What the host tells about its settings: the services that they affect, and how these restart. */
import * as s from '@brupop/shared/api/schema';
import * as v from 'valibot';
import { readJson } from '../http/exchange.ts';
import type { Service } from '../settings/classes.ts';
import { HostError } from './host.ts';

const MAX_ITEMS = 100;

/** Unlike valibot's own it refuses a list. */
function records<S extends s.Schema>(item: S) {
  return v.pipe(v.unknown(), v.check(s.isFields, 'an object'), v.record(v.string(), item));
}

/** `GET /metadata/affected-services`; keys without metadata are absent. */
const affectedServices = records(s.list(v.string('the name of a service'), MAX_ITEMS));

/** `GET /services`. */
const services = records(s.object({ 'restart-commands': s.list(v.string('a command'), MAX_ITEMS) }));

function read<S extends s.Schema>(schema: S, text: string, call: string): s.Infer<S> {
  return readJson(schema, text, 'body', (message, options) => new HostError('answer', `${call}: ${message}`, options));
}

/** Returns the names of the services by the key of the setting. Throws HostError `answer`. */
export function parseAffectedServices(text: string): ReadonlyMap<string, readonly string[]> {
  return new Map(Object.entries(read(affectedServices, text, 'GET /metadata/affected-services')));
}

/** Throws HostError `answer`. */
export function parseServices(text: string): readonly Service[] {
  return Object.entries(read(services, text, 'GET /services')).map(
    ([name, { 'restart-commands': restartCommands }]) => ({
      name,
      restartCommands,
    }),
  );
}
