import type { Handler } from '../http/context.ts';
import { createDocument, type DocumentOptions } from './document.ts';
import type { Operation, Route } from './operation.ts';
import { pageRoutes } from './page.ts';

/** Version of the v1 API; it grows with each addition. */
const VERSION = '1.1.0';

/** Returns the routes of the document, for the given routes and its own. */
export function serviceRoutes(options: Omit<DocumentOptions, 'version'>): Route[] {
  let text: Buffer | undefined;
  const readDocument: Handler = async (ctx) => {
    text ??= Buffer.from(JSON.stringify(createDocument({ ...options, routes: all, version: VERSION })));
    ctx.set('Cache-Control', 'public, max-age=60');
    ctx.set('Access-Control-Allow-Origin', '*');
    ctx.type = 'application/json';
    ctx.body = text;
  };
  const own: Route[] = [
    {
      method: 'get',
      path: '/openapi.json',
      handler: readDocument,
      scope: 'none',
      operation: documentOperation,
    },
    ...pageRoutes,
  ];
  const all = [...options.routes, ...own];
  return own;
}

const documentOperation: Operation = {
  id: 'getOpenapi',
  tag: 'Service',
  summary: 'Read this document',
  description: 'The description of the API from which clients can be generated.',
  key: 'none',
  answers: [
    { status: 200, description: 'OpenAPI 3.1.', type: 'application/json', headers: ['Cache-Control'] },
  ],
};
