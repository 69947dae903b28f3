const { existsSync, linkSync, mkdirSync, rmSync, symlinkSync } = require('node:fs');

/**
 * Replaces the package of this name, which `node` calls in its pre-install script, in its own folder. The original runs
 * `npm install --no-save` for the program of this platform, past the lock file. Here the programs are optional
 * dependencies, so that package-lock.json pins them with their hashes, and this only links the one that npm installed.
 * Throws when there is none for this platform, or another version.
 *
 * @param {string} version
 */
module.exports = function linkNode(version) {
  const name = `node-${process.platform}-${process.arch}`;
  const { program, found } = installed(name);
  if (found !== version) {
    throw new Error(`scripts/node-bin-setup/package.json: expected ${name}@${version}, found ${found}`);
  }
  mkdirSync('bin', { recursive: true });
  rmSync('bin/node', { force: true });
  linkSync(program, 'bin/node');
};

/** @param {string} name */
function installed(name) {
  try {
    const manifest = /** @type {{ version: string }} */ (require(`${name}/package.json`));
    return { program: require.resolve(`${name}/bin/node`), found: manifest.version };
  } catch {
    return { program: '', found: 'nothing' };
  }
}

// The project's own post-install script: npm 10 removes the link together with the package of the other platform.
if (require.main === module && !existsSync('node_modules/.bin/node')) {
  symlinkSync('../node/bin/node', 'node_modules/.bin/node');
}
