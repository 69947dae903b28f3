/**
 * Objects of settings of which the host takes no part. Without these fields it refuses a change, and cannot answer for the
 * others; or it completes the change with their defaults. So they are read and set with the others, although only what
 * differs is changed.
 *
 * Sources: `OciDefaultsResourceLimitV1`, `CredentialProvider`, `KubernetesMemoryReservation` and `HugepagesStatic` of
 * bottlerocket-os/bottlerocket-settings-sdk.
 */
import type { Leaves } from '@brupop/shared/api/settings';

const NEEDED: readonly (readonly [object: RegExp, ...fields: string[]])[] = [
  [/^settings\.oci-defaults\.resource-limits\.[^.]+(?=\.)/u, 'hard-limit', 'soft-limit'],
  [/^settings\.kubernetes\.credential-providers\.[^.]+(?=\.)/u, 'enabled', 'image-patterns'],
  [/^settings\.kubernetes\.memory-manager-reserved-memory\.[^.]+(?=\.)/u, 'enabled'],
  [/^settings\.kernel\.hugepages\.static(?=\.)/u, 'essential'],
];

/** The keys without which the host does not take or report these, or completes them. */
export function neededWith(keys: Iterable<string>): readonly string[] {
  const needed = [...keys].flatMap((key) =>
    NEEDED.flatMap(([object, ...fields]) => {
      const [path] = object.exec(key) ?? [];
      return path === undefined ? [] : fields.map((field) => `${path}.${field}`);
    }),
  );
  return [...new Set(needed)];
}

/** Returns the changes, and what the host needs with them as it has it. */
export function completed(changes: Leaves, live: Leaves): Leaves {
  const needed = neededWith(changes.keys());
  return new Map([...[...live].filter(([key]) => needed.includes(key)), ...changes]);
}
