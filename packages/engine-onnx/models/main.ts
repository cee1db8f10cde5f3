import { runModels } from './cli.ts';

process.exitCode = await runModels(
  process.argv.slice(2),
  (line) => process.stdout.write(`${line}\n`),
  (line) => process.stderr.write(`${line}\n`),
);
