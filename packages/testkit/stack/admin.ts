import { execFile } from 'node:child_process';
import { cleanEnv, root } from './stack-process.ts';

/** Runs an admin command with `--json` and returns its JSON document. Throws `AdminRefusal` when it is refused. */
export type Admin = (
  noun: string,
  verb: string,
  flags?: Readonly<Record<string, string | number>>,
) => Promise<Record<string, unknown>>;

class AdminRefusal extends Error {
  override readonly name = 'AdminRefusal';
  readonly code: string;
  readonly exitCode: number;
  constructor(code: string, message: string, exitCode: number) {
    super(message);
    this.code = code;
    this.exitCode = exitCode;
  }
}

export function adminOf(stack: { stackFile: string; stateDir: string }): Admin {
  return (noun, verb, flags = {}) => {
    const options = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const args = ['control-plane/admin/cli.ts', noun, verb, ...options, '--json'];
    const env = {
      ...cleanEnv(),
      SEMBLANCE_STATE_DIR: stack.stateDir,
      SEMBLANCE_STACK_JSON: stack.stackFile,
    };
    return new Promise((resolve, reject) => {
      execFile(process.execPath, args, { cwd: root, env }, (error, stdout, stderr) => {
        let document: Record<string, unknown>;
        try {
          document = JSON.parse(stdout) as Record<string, unknown>;
        } catch (cause) {
          const said = `admin ${noun} ${verb} printed no JSON: ${stdout}${stderr}`;
          return reject(new Error(said, { cause }));
        }
        if (!error) return resolve(document);
        const refusal = document.error as { code?: string; message?: string } | undefined;
        const exitCode = typeof error.code === 'number' ? error.code : -1;
        reject(new AdminRefusal(refusal?.code ?? '', refusal?.message ?? stdout, exitCode));
      });
    });
  };
}
