/** The commands and their options. */
import { Argument, Command, InvalidArgumentError, Option } from 'commander';
import { canBeName } from '@brupop/shared/kube/paths';
import { RELEASE } from '@brupop/shared/runtime/build';
import { abort, approve, pause, resume, retry, skip, unskip, updateNow } from './commands/change.ts';
import { candidates, COMPLETE_COMMAND, completion, type Shell, SHELLS } from './commands/completion.ts';
import type { Context } from './commands/context.ts';
import { explain, type Format, history, plan, report, type ReportFormat, status } from './commands/show.ts';
import { type BundleOptions, supportBundle } from './commands/support-bundle.ts';
import type { Target } from './cluster/client.ts';

export interface World extends Omit<Context, 'client'> {
  readonly connect: (options: Target) => Context;
}

const FORMATS: readonly Format[] = ['table', 'wide', 'json', 'yaml'];

export function programOf(world: World): Command {
  const program = new Command('kubectl-brupop')
    .description('Shows and steers how Bottlerocket nodes are updated.')
    .version(RELEASE)
    .option('--kubeconfig <file>', 'the kubeconfig; by default KUBECONFIG, or else ~/.kube/config')
    .option('--context <name>', 'the context of the kubeconfig; by default its current one')
    .addOption(namespaceOption())
    // The option --version of a command is its own.
    .enablePositionalOptions()
    .exitOverride();
  const connected = (): Context => world.connect(program.opts<Target>());
  addReads(program, connected);
  addChanges(program, connected);
  addSupport(program, connected);
  acceptNamespaceAfter(program);
  program
    .command('completion')
    .description('print a script that completes commands')
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .action((shell: Shell) => world.print(completion(shell)));
  program
    .command(`${COMPLETE_COMMAND} [words...]`, { hidden: true })
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (words: string[]) => {
      const lines = await candidates(program, words, () => world.connect(targetIn(program, words)).client);
      world.print(`${lines.join('\n')}\n`);
    });
  return program;
}

function namespaceOption(): Option {
  return new Option(
    '-n, --namespace <name>',
    'the namespace of the operator; by default that of its shadows',
  ).argParser((text) => namespace(withoutEquals(text)));
}

/** Of -n=NAME and -o=json, which kubectl accepts, the value begins with the equals sign. */
function withoutEquals(text: string): string {
  return text.replace(/^=/u, '');
}

/** As kubectl accepts it: after the command as well. */
function acceptNamespaceAfter(program: Command): void {
  for (const command of program.commands) command.addOption(namespaceOption());
  program.hook('preAction', (_, command) => {
    const { namespace: named } = command.opts<Target>();
    if (named !== undefined) program.setOptionValue('namespace', named);
  });
}

/** What is on the line so far says which cluster is asked for names. */
function targetIn(program: Command, words: readonly string[]): Target {
  program.parseOptions(words.slice(0, -1));
  return program.opts<Target>();
}

interface Output {
  readonly output: Format;
}

function format<T extends string>(formats: readonly T[], byDefault: T): Option {
  const option = new Option('-o, --output <format>', 'the format').choices(formats).default(byDefault);
  const parse = option.parseArg;
  return option.argParser((text, before: unknown) => parse?.(withoutEquals(text), before));
}

function addReads(program: Command, connected: () => Context): void {
  program
    .command('status')
    .description('show the fleet and each node')
    .addOption(format(FORMATS, 'table'))
    .option('-w, --watch', 'show it again after each change, in place on a terminal', false)
    .action(async (options: Output & { watch: boolean }) => await status(connected(), options));
  nodeCommand(program, 'explain')
    .description('show why a node waits, and what happened to it')
    .addOption(format(FORMATS, 'table'))
    .option('--gates', 'instead, ask each gate that the node must pass to start its update', false)
    .action(async (node: string, options: Output & { gates: boolean }) => await explain(connected(), node, options));
  program
    .command('plan')
    .description('show the nodes that update next')
    .addOption(format(FORMATS, 'table'))
    .option('--with <file>', 'show what an edit of the configuration would change, without applying it; - is stdin')
    .action(async (options: Output & { with?: string }) => await plan(connected(), options));
  nodeCommand(program, 'history', '[node]')
    .description('show the last ten updates of each node')
    .addOption(format(FORMATS, 'table'))
    .action(async (node: string | undefined, options: Output) => await history(connected(), node, options));
  program
    .command('report')
    .description('print a page on the rollout of a version, to be filed')
    .option('--version <version>', 'the version; by default that of the latest rollout')
    .addOption(format<ReportFormat>(['html', 'json', 'yaml'], 'html'))
    .action(async (options: { output: ReportFormat; version?: string }) => await report(connected(), options));
}

/** A DNS label (RFC 1123), as the API server requires it. */
const NAMESPACE = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/u;

function namespace(name: string): string {
  if (NAMESPACE.test(name)) return name;
  throw new InvalidArgumentError('expected the name of a namespace');
}

/** Another text makes the path of a request, and the request is then for something else, such as a subresource. */
function objectName(text: string): string {
  if (canBeName(text)) return text;
  throw new InvalidArgumentError('expected the name of an object, without its kind');
}

function nodeCommand(program: Command, name: string, node: '<node>' | '[node]' = '<node>'): Command {
  return program.command(name).addArgument(new Argument(node).argParser(objectName));
}

function groupOption(description: string): Option {
  return new Option('--group <name>', description).argParser(objectName);
}

function count(text: string): number {
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= 100_000) return value;
  throw new InvalidArgumentError('expected a whole number from 0 to 100000');
}

function addSupport(program: Command, connected: () => Context): void {
  program
    .command('support-bundle')
    .description('write objects, Events and logs of the operator, redacted, to a .tar.gz')
    .option('-o, --output <file>', 'the file; by default brupop-support-TIME.tar.gz', withoutEquals)
    .option('--lines <count>', 'how many lines of each log', count, 2_000)
    .option('--agents <count>', 'the logs of how many agents; those of nodes that have failed first', count, 10)
    .option('--redact-names', 'replace the names of nodes, and addresses', false)
    .action(async (options: BundleOptions) => await supportBundle(connected(), options));
}

function addChanges(program: Command, connected: () => Context): void {
  program
    .command('pause')
    .description('let no node start an update')
    .addOption(groupOption('only the nodes of this BottlerocketNodeGroup'))
    .option('--reason <text>', 'shown on every node that waits')
    .action(async (options: { group?: string; reason?: string }) => await pause(connected(), options));
  program
    .command('resume')
    .description('end the pause')
    .addOption(groupOption('the pause, or the failures, of this BottlerocketNodeGroup'))
    .option('--failures', 'instead, accept all failures so far, which ends freezes and holds of versions', false)
    .action(async (options: { group?: string; failures: boolean }) => await resume(connected(), options));
  program
    .command('approve <version>')
    .description('approve a version for the nodes that are no canaries')
    .addOption(groupOption('only for the nodes of this BottlerocketNodeGroup'))
    .action(async (version: string, options: { group?: string }) => await approve(connected(), version, options));
  nodeCommand(program, 'retry')
    .description('retry the version that is pinned, or that the host offers')
    .action(async (node: string) => await retry(connected(), node));
  nodeCommand(program, 'abort')
    .description('end the update of a node before its reboot, and uncordon the node')
    .action(async (node: string) => await abort(connected(), node));
  nodeCommand(program, 'update-now')
    .description('update a node before others, and outside of maintenance windows, once')
    .option('--version <version>', 'only to this version; by default the one that its host offers')
    .action(async (node: string, options: { version?: string }) => await updateNow(connected(), node, options));
  nodeCommand(program, 'skip')
    .description('let a node start no update')
    .option('--reason <text>', 'shown on the node')
    .action(async (node: string, { reason }: { reason?: string }) => await skip(connected(), node, reason));
  nodeCommand(program, 'unskip')
    .description('let a skipped node be updated again')
    .action(async (node: string) => await unskip(connected(), node));
}
