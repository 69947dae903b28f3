/**
 * Fields of the spec of a BrupopConfig for silences in Alertmanager. As for notifications, a mistake that only this process can
 * see is no mistake of the configuration: the API server checks formats, and a reader takes any text.
 */
import * as v from 'valibot';
import { formatted, secretName } from './config-notifications.ts';
import { described, flag, type Infer, oneOf } from './schema.ts';
import { always, field, fields, group, listOf } from './spec-schema.ts';

export const MAX_ALERTMANAGERS = 5;
const MAX_LABELS = 3;
const MAX_MATCHERS = 10;
const LABEL_NAME = '^[a-zA-Z_][a-zA-Z0-9_]*$';
/** Not the signs of Alertmanager: `=` alone is no text for some readers of YAML. */
export const MATCH_OPERATORS = ['Equals', 'NotEquals', 'Matches', 'NotMatches'] as const;

const labelName = formatted('the name of a label', LABEL_NAME, 100);
const byName = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] };

const label = fields({
  name: described(labelName, 'The name of a label of alerts whose value is the name of the Node.'),
});

const matcher = fields({
  name: described(labelName, 'The name of a label of alerts, which is none of labels.'),
  operator: field(
    oneOf(MATCH_OPERATORS),
    'How the label is compared. Equals and NotEquals: with a text. Matches and NotMatches: with a regular expression for the whole value.',
    always('Equals'),
  ),
  value: described(
    v.pipe(v.string('a text'), v.metadata({ maxLength: 500, pattern: '^[^\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}]*$' })),
    'The text, or the regular expression.',
  ),
});

const LABELS: { name: string }[] = [{ name: 'node' }];

export const silences = group(
  'Silences in Alertmanager for nodes that are away because of the reboot of an update, so that alerts about them page no one. Without ' +
    'addresses and a Secret there are none. Updates never wait for a silence, and an Alertmanager that does not work stops none.',
  {
    addresses: field(
      listOf(
        formatted(
          'an address such as http://alertmanager.monitoring.svc:9093',
          '^https?://[^\\s/@?#]+(/[^\\s?#]*)?$',
          2048,
        ),
        MAX_ALERTMANAGERS,
        'set',
      ),
      `Members of one Alertmanager cluster, at most ${MAX_ALERTMANAGERS}, with the prefix of their paths, if any. They replicate silences, so ` +
        'one that works is enough; the others are tried when it fails.',
      always([]),
    ),
    secretName: field(
      secretName,
      "A Secret in the operator's namespace, which the chart's value notifications.secrets has to name as well. Its keys: address, the " +
        'addresses, one a line, instead of the field; token (bearer), or username and password; headers, one a line; ca.crt, the authorities ' +
        'of the server. Each may be absent.',
    ),
    allowHTTP: field(flag(), 'True: addresses may begin with http://.', always(false)),
    labels: field(
      v.pipe(listOf(label, MAX_LABELS), v.minLength(1, 'at least one label'), v.metadata({ minItems: 1, ...byName })),
      `At most ${MAX_LABELS} labels in which alerts have the name of the Node. An alert with any of them is silenced. By default there is one, ` +
        'node.',
      always(LABELS),
    ),
    matchers: field(
      listOf(matcher, MAX_MATCHERS),
      `What alerts must match as well, at most ${MAX_MATCHERS}, such as the label of the cluster.`,
      always([]),
    ),
  },
);

export type SilenceSettings = Infer<typeof silences>;
