/** What a failed request means for the user, and what to do. */
import { CONFIG_PLURAL, GROUP, NODE_GROUP_PLURAL, SHADOW_PLURAL } from '@brupop/shared/api/names';
import { isOfRBAC, KubeError } from '@brupop/shared/kube/error';
import { RELEASE } from '@brupop/shared/runtime/build';
import { messageOf } from '@brupop/shared/runtime/errors';

/** The message is for the user as it is. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

interface Missing {
  readonly verb: string;
  readonly resource: string;
  readonly namespace: string | undefined;
}

const VIEW_VERBS = ['get', 'list', 'watch'];
/** A role would not help: it would give the right to anyone. */
const ANONYMOUS = 'system:anonymous';

/** @param context - the name of the context in the kubeconfig */
export function explainError(error: unknown, context: string): string {
  if (!(error instanceof KubeError)) return messageOf(error);
  const { status, message } = error;
  if (status === 401)
    return `context ${context}: the credentials are expired or invalid: log in again, or choose another --context`;
  if (status === 403 && message.includes(`User "${ANONYMOUS}"`))
    return (
      `context ${context}: the request arrived without credentials (${ANONYMOUS}): log in again, choose another --context, ` +
      'or find the proxy that drops the client certificate'
    );
  if (status === 403 && isOfRBAC(message)) return forbidden(message);
  const field = unknownField(error);
  if (field !== undefined)
    return (
      `context ${context}: nothing was changed: the operator of the cluster does not know the field ${field}, so it is too ` +
      `old for kubectl brupop ${RELEASE}: upgrade the operator`
    );
  return status === 404 && message.includes(`/apis/${GROUP}/`) ? missingObject(error, context) : message;
}

/** A request with `fieldValidation=Strict` has it, and the definition of the kind does not. */
function unknownField({ status, message }: KubeError): string | undefined {
  const found = /strict decoding error: unknown field "(?<field>[^"]+)"/u.exec(message)?.groups?.['field'];
  return status === 400 || status === 422 ? found : undefined;
}

/** What to do when the API server does not know a kind of the operator, or an object of it. */
function missingObject(error: KubeError, context: string): string {
  const { message } = error;
  // An API server that knows the kind names the object that is missing.
  if (error.reason !== 'NotFound' || message.includes('could not find the requested resource'))
    return `context ${context}: the cluster does not know ${GROUP}: the operator is not installed, or has another release`;
  if (message.includes(`/${NODE_GROUP_PLURAL}/`)) return `${message}: "kubectl get brng" lists the groups`;
  return message.includes(`/${CONFIG_PLURAL}/`) ? `${message}: create it first, see docs/configuration.md` : message;
}

function forbidden(message: string): string {
  const missing = missingIn(message);
  if (missing === undefined) return message;
  const { verb, resource, namespace } = missing;
  const where = namespace === undefined ? 'in the cluster' : `in the namespace "${namespace}"`;
  return `missing permission: ${verb} ${resource} ${where}\n${remedy(missing)}`;
}

function missingIn(message: string): Missing | undefined {
  const found =
    /cannot (?<verb>\w+) resource "(?<resource>[^"]+)" in API group "(?<group>[^"]*)"(?: in the namespace "(?<namespace>[^"]+)")?/u.exec(
      message,
    )?.groups;
  if (found === undefined) return undefined;
  const { verb = '', resource = '', group = '', namespace } = found;
  return { verb, resource: group === '' ? resource : `${resource}.${group}`, namespace };
}

function remedy({ verb, resource, namespace }: Missing): string {
  if (!resource.endsWith(`.${GROUP}`))
    return `No role of the operator has it: ask for a ClusterRole with the verb ${verb} on ${resource}.`;
  const own =
    namespace === undefined && resource.startsWith(`${SHADOW_PLURAL}.`)
      ? ' If you have it in the namespace of the operator, name that with --namespace.'
      : '';
  return VIEW_VERBS.includes(verb)
    ? `The ClusterRole brupop-view has it, and so have view, edit and admin.${own}`
    : 'The ClusterRole brupop-operate has it, and so has admin.';
}
