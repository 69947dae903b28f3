import type { BrupopConfig } from '@brupop/shared/api/brupop-config';
import { type DrainSettings, readDrainSettings, withDefaults } from '@brupop/shared/api/config-spec';
import { CONFIG_NAME } from '@brupop/shared/api/names';
import type { Reflector } from '@brupop/shared/kube/reflector';
import type { Logger } from '@brupop/shared/runtime/log';
import { ApiError } from '../errors.ts';

/** The settings of the BrupopConfig as the watch knows it. */
export class Settings {
  readonly #configs: Pick<Reflector<BrupopConfig>, 'get'>;
  readonly #log: Logger;
  #good: DrainSettings | undefined;
  #complained: string | undefined;

  constructor(configs: Pick<Reflector<BrupopConfig>, 'get'>, log: Logger) {
    this.#configs = configs;
    this.#log = log;
  }

  /**
   * What holds now: what the controller has put in force, or the spec itself while it has not seen it. A configuration that cannot be followed
   * leaves the last good one in force for the nodes under way (the controller begins nothing new). Throws Failure `Unavailable` when this
   * replica has seen none that was good.
   */
  current(): DrainSettings {
    const { spec, status } = this.#configs.get(CONFIG_NAME) ?? {};
    const { value: settings, problems } = readDrainSettings(status?.inForce?.spec ?? withDefaults(spec));
    const [problem] = problems;
    this.#complain(problem);
    if (problem === undefined) this.#good = settings;
    if (this.#good !== undefined) return this.#good;
    throw new ApiError('Unavailable', `BrupopConfig "${CONFIG_NAME}" cannot be followed: ${problem ?? ''}`);
  }

  #complain(problem: string | undefined): void {
    if (problem !== undefined && problem !== this.#complained)
      this.#log.error('the BrupopConfig cannot be followed', { problem });
    this.#complained = problem;
  }
}
