/** A webhook of a running stack, against the description of webhooks in the document. */
import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { startReceiver } from '@semblance/testkit/stack/receiver';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import { beforeAll, expect, it } from 'vitest';

interface Parameter {
  readonly name: string;
  readonly required: boolean;
}

interface Document {
  readonly webhooks: {
    readonly jobEnded: {
      readonly post: {
        readonly parameters: readonly Parameter[];
        readonly requestBody: { readonly content: Record<string, { readonly schema: object }> };
      };
    };
  };
  readonly components: { readonly schemas: Record<string, { readonly properties: object }> };
}

let account: Account;
beforeAll(async () => {
  account = await (await sharedStack()).newAccount();
}, 240_000);

it('a webhook has the body and the headers that are described', async () => {
  const { api } = account;
  const document = (await (await fetch(`${api.baseUrl}/openapi.json`)).json()) as Document;
  const { parameters, requestBody } = document.webhooks.jobEnded.post;
  const ajv = new Ajv2020({ strict: false, allErrors: true });
  addFormats.default(ajv);
  const valid = ajv.compile({
    ...requestBody.content['application/json']?.schema,
    components: document.components,
  });

  const receiver = await startReceiver();
  try {
    const [image_key, face_key] = [await api.upload(ADMIRAL), await api.upload(ASTRONAUT)];
    const { id } = await api.swap({ image_key, face_key, callback_url: receiver.url });
    await api.finished(id);
    const call = await eventually('a webhook', async () => receiver.received[0]);
    const body = JSON.parse(call.body.toString());
    expect([valid(body), valid.errors]).toEqual([true, null]);
    expect(Object.keys(body).sort()).toEqual(
      Object.keys(document.components.schemas.JobWebhook?.properties ?? {}).sort(),
    );
    const sent = Object.keys(call.headers).filter((name) => /^(service|webhook)-/.test(name));
    const described = parameters.map(({ name }) => name.toLowerCase());
    expect(described).toEqual(expect.arrayContaining(sent));
    const required = parameters.filter((one) => one.required);
    expect(sent).toEqual(expect.arrayContaining(required.map(({ name }) => name.toLowerCase())));
  } finally {
    await receiver.close();
  }
});
