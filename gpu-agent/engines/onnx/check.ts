/** `node gpu-agent/engines/onnx/check.ts DIR` prints which models of a directory fit and what does not. */
import { readdir } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { openModelDir } from './model-dir.ts';

/** @returns the text to print, and whether everything fits */
export async function checkDirectory(directory: string): Promise<{ text: string; fits: boolean }> {
  const { models, faults } = await openModelDir(directory);
  const lines: string[] = [];
  for (const { name, contract, licence, batch, file } of models) {
    lines.push(
      `fits      ${name}: ${contract.stage}, ${contract.name}${batch ? ', takes batches' : ''} (${file})`,
    );
    lines.push(`          licence: ${licence}`);
  }
  for (const fault of faults) lines.push(`DOES NOT  ${fault}`);
  const named = new Set(models.map((model) => model.file));
  const files = await readdir(directory).catch(() => []);
  for (const file of files) {
    if (file.endsWith('.onnx') && !named.has(file) && !faults.some((fault) => fault.includes(`(${file})`))) {
      lines.push(`ignored   ${file}: the manifest does not name it`);
    }
  }
  return { text: `${lines.join('\n')}\n`, fits: faults.length === 0 };
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [directory] = process.argv.slice(2);
  if (directory === undefined) {
    process.stderr.write('usage: node gpu-agent/engines/onnx/check.ts DIR\n');
    process.exitCode = 2;
  } else {
    const { text, fits } = await checkDirectory(directory);
    process.stdout.write(text);
    process.exitCode = fits ? 0 : 1;
  }
}
