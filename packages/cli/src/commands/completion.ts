/** Scripts that complete the names of the commands. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

export function completion(shell: Shell, commands: readonly string[]): string {
  return SCRIPTS[shell](commands.join(' '));
}

const SCRIPTS: Readonly<Record<Shell, (words: string) => string>> = {
  bash: (words) => `complete -W '${words}' kubectl-brupop\n`,
  zsh: (words) =>
    '#compdef kubectl-brupop\n' +
    `_kubectl_brupop() { _arguments '1:command:(${words})' '*::argument:_default'; }\n` +
    'compdef _kubectl_brupop kubectl-brupop\n',
  fish: (words) => `complete -c kubectl-brupop -f -n __fish_use_subcommand -a '${words}'\n`,
};
