import type { V1ServiceAccountTokenProjection } from '@kubernetes/client-node';
import { messageOf } from '@brupop/shared/runtime/errors';
import type { Logger } from '@brupop/shared/runtime/log';
import { showFiles } from './atomic-files.ts';
import type { Pod } from './pod.ts';
import { projectedFiles, type Projections, referencesOf } from './projections.ts';
import type { DataReference, ReferencedObjects } from './referenced-objects.ts';
import { allSettled } from './retry.ts';
import { type IssuedToken, requestToken, type TokenSource } from './tokens.ts';

export interface FileVolumeOptions {
  readonly dir: string;
  readonly projections: Projections;
  readonly objects: ReferencedObjects;
  readonly tokens: TokenSource;
  readonly log: Logger;
  /** Ends with the pod. */
  readonly signal: AbortSignal;
}

/**
 * A volume of files that follows its sources: Secrets, ConfigMaps, fields of the pod and tokens. A
 * change is shown at once; a real kubelet takes up to a minute or so.
 */
export class FileVolume {
  readonly #options: FileVolumeOptions;
  readonly #tokens = new Map<string, IssuedToken>();
  readonly #releases: (() => void)[] = [];
  readonly #end = new AbortController();
  readonly #signal: AbortSignal;
  #pod: Pod;
  #writing: Promise<void> = Promise.resolve();

  constructor(pod: Pod, options: FileVolumeOptions) {
    this.#pod = pod;
    this.#options = options;
    this.#signal = AbortSignal.any([options.signal, this.#end.signal]);
  }

  /**
   * Resolves when the files are there. Throws NotYet when a source is missing, KubeError when a
   * token is rejected.
   */
  async open(): Promise<void> {
    const { projections } = this.#options;
    const references = referencesOf(projections, this.#pod.metadata.namespace);
    await allSettled([
      ...references.map(async (one) => await this.#hold(one)),
      ...this.#tokenSources().map(async ({ path }) => await this.#renew(path)),
    ]);
    await this.#write();
    for (const { path } of this.#tokenSources()) void this.#keepFresh(path);
  }

  /** The pod or another source has changed. */
  refresh(pod: Pod): void {
    this.#pod = pod;
    this.#write().catch((error: unknown) => {
      this.#options.log.warn('a volume keeps its old content', { dir: this.#options.dir, error: messageOf(error) });
    });
  }

  close(): void {
    this.#end.abort();
    for (const release of this.#releases.splice(0)) release();
  }

  async #hold(reference: DataReference): Promise<void> {
    const release = await this.#options.objects.hold(reference, () => this.refresh(this.#pod), this.#signal);
    this.#releases.push(release);
    if (this.#signal.aborted) this.close();
  }

  #tokenSources(): V1ServiceAccountTokenProjection[] {
    return this.#options.projections.sources.flatMap(({ serviceAccountToken }) => serviceAccountToken ?? []);
  }

  async #renew(path: string): Promise<void> {
    const projection = this.#tokenSources().find((one) => one.path === path);
    if (projection === undefined) return;
    const { tokens } = this.#options;
    this.#tokens.set(path, await requestToken(tokens, this.#pod, projection, this.#signal));
  }

  /**
   * Renews a token in time until the pod ends, or until the API server rejects: the pod is gone
   * then.
   */
  async #keepFresh(path: string): Promise<void> {
    const { tokens, log } = this.#options;
    try {
      while (!this.#signal.aborted) {
        await tokens.clock.sleep(this.#tokens.get(path)?.renewInMs ?? 0, this.#signal);
        await this.#renew(path);
        await this.#write();
      }
    } catch (error) {
      if (!this.#signal.aborted) log.warn('a token is not renewed any more', { path, error: messageOf(error) });
    }
  }

  /** One at a time, in order. */
  #write(): Promise<void> {
    const next = this.#writing.catch(() => undefined).then(() => this.#writeNow());
    this.#writing = next;
    return next;
  }

  async #writeNow(): Promise<void> {
    const { dir, projections, objects } = this.#options;
    if (this.#signal.aborted) return;
    const files = projectedFiles(projections, {
      pod: this.#pod,
      object: (reference) => objects.get(reference),
      token: (path) => this.#tokens.get(path)?.token ?? '',
    });
    await showFiles(dir, files);
  }

  /** Resolves when no write is under way. */
  async settled(): Promise<void> {
    await this.#writing.catch(() => undefined);
  }
}
