import { createRequire } from 'node:module';
import { installed } from './installed.ts';
import { readTfjsModel, type TfjsModel } from './tfjs-model.ts';

const SHARDS = 2;

/**
 * Reads the files of the network `mobilenet_v2_mid` of nsfwjs (MIT; trained by GantMan/nsfw_model). Its modules export
 * the document of the graph as an object, and the weights as base64.
 * @throws Error when the package is not installed or its network is not as described
 */
export function nsfwjsFiles(): { readonly document: unknown; readonly weights: Buffer } {
  const require = createRequire(import.meta.url);
  const part = (name: string): unknown =>
    require(installed('nsfwjs', `dist/models/mobilenet_v2_mid/${name}.min.js`));
  const shards = Array.from({ length: SHARDS }, (_, index) =>
    Buffer.from(part(`group1-shard${index + 1}of${SHARDS}`) as string, 'base64'),
  );
  return { document: part('model'), weights: Buffer.concat(shards) };
}

export function readNsfwjs(): TfjsModel {
  const { document, weights } = nsfwjsFiles();
  return readTfjsModel(JSON.stringify(document), weights);
}
