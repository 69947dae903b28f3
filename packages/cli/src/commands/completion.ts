/**
 * Completion of commands, options and names. The scripts of the shells ask the program itself, as kubectl does for its
 * plugins: it runs `kubectl_complete-NAME` with the words so far, and reads one candidate a line and then `:` with a number
 * that says what the shell is to do with them (cobra "Shell completions").
 */
import type { Command, Option } from 'commander';
import { shadowName } from '@brupop/shared/api/names';
import { nodeGroupPath } from '@brupop/shared/kube/paths';
import type { Client } from '../cluster/client.ts';
import { shadowsPath } from '../cluster/fleet.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** The program under this name prints candidates. */
export const COMPLETER = 'kubectl_complete-brupop';
export const COMPLETE_COMMAND = '__complete';

/** Of cobra: no files are candidates, or files are. */
const NO_FILES = ':4';
const FILES = ':0';
/** A user waits for it. */
const LIMIT_MS = 3_000;

export function completion(shell: Shell): string {
  return SCRIPTS[shell];
}

const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: `_kubectl_brupop() {
  local IFS=$'\\n'
  COMPREPLY=($(kubectl-brupop ${COMPLETE_COMMAND} -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | grep -v '^:'))
}
complete -o default -F _kubectl_brupop kubectl-brupop
`,
  zsh: `#compdef kubectl-brupop
_kubectl_brupop() {
  local -a candidates
  candidates=(\${(f)"$(kubectl-brupop ${COMPLETE_COMMAND} -- "\${(@)words[2,$CURRENT]}" 2>/dev/null | grep -v '^:')"})
  compadd -- $candidates || _files
}
compdef _kubectl_brupop kubectl-brupop
`,
  fish: `function __kubectl_brupop
  set -l words (commandline -opc) (commandline -ct)
  kubectl-brupop ${COMPLETE_COMMAND} -- $words[2..-1] 2>/dev/null | string match -v ':*'
end
complete -c kubectl-brupop -f -a '(__kubectl_brupop)'
`,
};

/**
 * What may follow, and what the shell is to do. A name that cannot be looked up has no candidates.
 *
 * @param words - after the program; the last one is not complete, and may be empty
 */
export async function candidates(program: Command, words: readonly string[], client: () => Client): Promise<string[]> {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  const command = commandIn(program, before);
  const found = await candidatesOf({ program, command, before, current }, client);
  if (found === undefined) return [FILES];
  return [...found.filter((one) => one.startsWith(current)).toSorted(), NO_FILES];
}

interface Place {
  readonly program: Command;
  /** Undefined: none is complete yet. */
  readonly command: Command | undefined;
  readonly before: readonly string[];
  readonly current: string;
}

/** Undefined: files. */
async function candidatesOf(place: Place, client: () => Client): Promise<string[] | undefined> {
  const { program, command, before, current } = place;
  const last = before.at(-1) ?? '';
  const options = [...(command?.options ?? []), ...program.options];
  const option = options.find(({ long, short }) => last !== '' && (last === long || last === short));
  if (option?.required === true) return await valuesOf(option, client);
  if (current.startsWith('-')) return (command ?? program).options.map(({ long }) => long ?? '');
  if (command === undefined) return program.commands.map((one) => one.name()).filter((name) => !name.startsWith('_'));
  return last === command.name() ? await argumentsOf(command, client) : [];
}

async function valuesOf({ long, argChoices }: Option, client: () => Client): Promise<string[] | undefined> {
  if (long === '--group') return await namesOf(client, () => nodeGroupPath());
  if (argChoices !== undefined) return [...argChoices];
  return ['--with', '--kubeconfig', '--output'].includes(long ?? '') ? undefined : [];
}

async function argumentsOf({ registeredArguments: [argument] }: Command, client: () => Client): Promise<string[]> {
  if (argument?.name() !== 'node') return [...(argument?.argChoices ?? [])];
  const shadows = await namesOf(client, shadowsPath);
  return [...new Set(shadows)].map((name) => name.slice(shadowName('').length));
}

/** The first word that is a command. */
function commandIn(program: Command, words: readonly string[]): Command | undefined {
  return words.map((word) => program.commands.find((one) => one.name() === word)).find((one) => one !== undefined);
}

/**
 * Rows as kubectl shows them. The metadata alone is twenty times as long, with the history and the fields of each writer:
 * that of 3,000 nodes is more than one response may have.
 */
const ROWS = 'application/json;as=Table;g=meta.k8s.io;v=v1';
const WITHOUT_OBJECTS = { includeObject: 'None' };

interface Table {
  /** The first cell of a row is the name. */
  readonly rows?: readonly { readonly cells: readonly unknown[] }[];
}

async function namesOf(connect: () => Client, pathFor: (client: Client) => string): Promise<string[]> {
  try {
    const client = connect();
    const path = pathFor(client);
    const request = { method: 'GET', path, query: WITHOUT_OBJECTS, accept: ROWS, timeoutMs: LIMIT_MS } as const;
    const { rows = [] } = await client.request<Table>(request);
    return rows.map(({ cells: [name] }) => String(name));
  } catch {
    return [];
  }
}
