/** Events on the BrupopConfig, and log lines, of what happens to dependents. */
import { CONFIG_NAME, CONFIG_OBJECT } from '@brupop/shared/api/names';
import type { Events } from '@brupop/shared/kube/events';
import type { Logger } from '@brupop/shared/runtime/log';
import type { DependentsView } from '../../cluster/dependents.ts';
import type { Direction, Entry } from './decide.ts';
import { type DEPENDENT_EVENTS, describeOthers, describeRemoved, isByOthers, type Shown } from './report.ts';
import type { Target } from './target.ts';

type Config = DependentsView['config'];

export class Notices {
  readonly #options: { readonly events: Pick<Events, 'record'>; readonly log: Logger };
  /** Of targets that another actor has scaled back, or of which it has removed the record. */
  #reported: ReadonlySet<string> = new Set();

  constructor({ events, log }: { readonly events: Pick<Events, 'record'>; readonly log: Logger }) {
    this.#options = { events, log };
  }

  scaled(entry: Entry, target: Target, to: Direction, config: Config): void {
    const { key } = entry;
    const { log } = this.#options;
    if (to === 'Down') {
      log.warn('dependent scaled to 0', { target: key, replicas: target.replicas });
      const message = `${key} scaled from ${target.replicas} to 0: most nodes of the cluster have not renewed their Leases`;
      this.#record('DependentScaledDown', entry, target, { config, message, key: target.resourceVersion });
    } else {
      log.info('dependent scaled back', { target: key, replicas: target.restored });
      const message = `${key} has ${target.restored} replicas again`;
      this.#record('DependentScaledUp', entry, target, { config, message, key: target.resourceVersion });
    }
  }

  /** What another actor has done to each is reported once; another leader reports the same, with the same name. */
  seen(shown: readonly Shown[], config: Config): void {
    const { log } = this.#options;
    const reported = new Set<string>();
    for (const one of shown) {
      const { found, lostRecord } = one;
      if (typeof found === 'string' || !(isByOthers(found) || lostRecord !== undefined)) continue;
      const key = `${found.uid}/${found.generation}`;
      reported.add(key);
      if (this.#reported.has(key)) continue;
      const event = { config, key: String(found.generation) };
      const fields = { target: one.key, replicas: lostRecord ?? found.replicas };
      if (lostRecord === undefined) {
        log.warn('dependent scaled back by another actor', fields);
        this.#record('DependentScaledByOthers', one, found, { ...event, message: describeOthers([one]) });
      } else {
        log.warn('dependent stays at 0: another actor has removed its annotation', fields);
        const message = describeRemoved(one.key, lostRecord);
        this.#record('DependentRecordRemoved', one, found, { ...event, message });
      }
    }
    this.#reported = reported;
  }

  forget(): void {
    this.#reported = new Set();
  }

  #record(
    reason: (typeof DEPENDENT_EVENTS)[number],
    { kind, namespace, target: name }: Entry,
    { uid }: Target,
    { config, message, key }: { readonly config: Config; readonly message: string; readonly key: string },
  ): void {
    this.#options.events.record({
      reason,
      warning: reason !== 'DependentScaledUp',
      about: { ...CONFIG_OBJECT, name: CONFIG_NAME, uid: config?.metadata.uid ?? '' },
      related: { apiVersion: 'apps/v1', kind, namespace, name, uid },
      message,
      key: `${uid}/${key}`,
    });
  }
}
