/**
 * Fields of the spec of a BrupopConfig for those who are notified. A receiver with a mistake that only this process can
 * see, such as a Secret that does not exist, is no mistake of the configuration: updates do not depend on it. So the
 * formats of addresses and names are checked by the API server, and a reader takes any text.
 */
import * as v from 'valibot';
import { shortName } from './config-values.ts';
import { described, flag, type Infer, object, oneOf, optional, text, time } from './schema.ts';
import { always, field, fields, listOf, mapOf } from './spec-schema.ts';

export const MAX_RECEIVERS = 5;
/** In the record of a receiver. */
export const MAX_RECORDED_EVENTS = 100;
export const NOTIFICATION_FORMATS = ['JSON', 'Slack'] as const;
export const NOTIFICATION_EVENTS = ['Frozen', 'Failed', 'Held', 'Stuck', 'WaitsForApproval', 'Finished'] as const;
export type NotificationEvent = (typeof NOTIFICATION_EVENTS)[number];

/** Text whose format the API server checks. */
export function formatted(expected: string, pattern: string, maxLength: number) {
  return v.pipe(v.string(expected), v.metadata({ pattern, maxLength }));
}

export const secretName = formatted('the name of a Secret', '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$', 253);

const RULES = [
  {
    rule: "self.format == 'JSON' || !has(self.address)",
    message:
      'must not be set with format Slack: such an address is a secret, so put it into the key address of the Secret',
    fieldPath: '.address',
  },
  { rule: 'has(self.address) || has(self.secretName)', message: 'must have address or secretName' },
  {
    rule: "!has(self.address) || self.address.startsWith('https://') || (has(self.allowHTTP) && self.allowHTTP)",
    message: 'must begin with https:// unless allowHTTP is true',
    fieldPath: '.address',
  },
];

const receiver = v.pipe(
  fields({
    name: described(shortName, 'The name of the receiver, once in this list.'),
    format: described(
      oneOf(NOTIFICATION_FORMATS),
      'JSON: a document with a fixed schema. Slack: an incoming webhook of Slack, or of another service that takes its format.',
    ),
    events: described(
      v.pipe(
        listOf(oneOf(NOTIFICATION_EVENTS), NOTIFICATION_EVENTS.length, 'set'),
        v.minLength(1, 'at least one event'),
      ),
      'What it is notified of. Frozen: too many nodes failed with a version. Failed: a node failed with a version. Held: workloads fail on a ' +
        'version. Stuck: a node missed a deadline, did not return, or the rollout is late. WaitsForApproval: a version waits for its ' +
        'approval. Finished: nodes have succeeded, and none needs an update any more.',
      { minItems: 1 },
    ),
    address: field(
      formatted('an address such as https://events.example.com/brupop', '^https?://[^\\s/@]+(/\\S*)?$', 2048),
      'The address that notifications are posted to, if it is no secret. Users and passwords belong in the Secret.',
    ),
    secretName: field(
      secretName,
      "A Secret in the operator's namespace, which the chart's value notifications.secrets has to name as well. Its keys: address; token (bearer), or " +
        'username and password; headers, one a line; ca.crt, the authorities of the server. Each may be absent.',
    ),
    allowHTTP: field(flag(), 'True: the address may begin with http://. False is the default.', { absent: false }),
    cluster: field(
      v.pipe(
        v.string('a text'),
        v.metadata({ minLength: 1, maxLength: 100, pattern: '^[^\\p{Cc}\\p{Cf}\\p{Co}\\p{Zl}\\p{Zp}]*$' }),
      ),
      'The name of this cluster in notifications, for a receiver of several ones.',
    ),
  }),
  v.metadata({ 'x-kubernetes-validations': RULES }),
);
export type Receiver = Infer<typeof receiver>;

export const notifications = field(
  mapOf(receiver, MAX_RECEIVERS),
  `Who is notified, at most ${MAX_RECEIVERS} receivers. Each event is sent once to each, and retried for an hour. Updates never wait for a ` +
    'notification, and a receiver that does not work stops none.',
  always([]),
);

/** What the leader has sent, in the status of the BrupopConfig. */
export const NOTIFICATIONS_STATUS = optional(
  object({
    rolloutStartTime: optional(
      time(),
      'Since when nodes have needed an update. Absent while none does, and if no receiver asks for Finished.',
    ),
    rolloutEndTime: optional(time(), 'When the latest rollout ended. Absent an hour later.'),
    receivers: described(
      v.array(
        object({
          name: described(text(30), 'The name of the receiver in spec.notifications.'),
          state: described(
            text(64),
            'Ready: its Secret and address are as they should be, and the latest notification was accepted. NotReady: they are not, or it ' +
              'was not. Unknown: not checked yet.',
          ),
          since: described(time(), 'Since when it has this state.'),
          message: optional(text(500), 'Why it is not Ready.'),
          reason: optional(text(64), 'Why it is not Ready, as in the metric brupop_notification_failures_total.'),
          receiverHash: optional(
            text(16),
            'Of the entry in spec.notifications that message is about: a new leader checks one that has changed since.',
          ),
          lastSentTime: optional(time(), 'When it last accepted a notification.'),
          sent: optional(
            v.array(text(16)),
            'The IDs of events that it has accepted, or that were given up, and of failures that it did not ask for. Kept while they last, ' +
              'so that a new leader does not send them.',
            { maxItems: MAX_RECORDED_EVENTS, 'x-kubernetes-list-type': 'atomic' },
          ),
        }),
      ),
      'The receivers, in the order of spec.notifications.',
      { maxItems: MAX_RECEIVERS, 'x-kubernetes-list-type': 'atomic' },
    ),
  }),
  'What was sent to the receivers of spec.notifications. Absent without any.',
);
