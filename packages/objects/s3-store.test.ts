import { CreateBucketCommand, ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { objectStoreConformance } from '@semblance/testkit/objects/conformance';
import { S3_CREDENTIALS, startS3Server } from '@semblance/testkit/objects/s3-server';
import { openObjectStore } from './open.ts';

/** The first run on a machine builds the server. */
const START_MS = 600_000;

objectStoreConformance(
  'S3',
  async () => {
    const server = await startS3Server();
    // The store finds its credentials as in a Pod.
    process.env.AWS_ACCESS_KEY_ID = S3_CREDENTIALS.accessKeyId;
    process.env.AWS_SECRET_ACCESS_KEY = S3_CREDENTIALS.secretAccessKey;
    const client = new S3Client({ region: 'us-east-1', endpoint: server.endpoint, forcePathStyle: true });
    await client.send(new CreateBucketCommand({ Bucket: 'objects' }));
    const endpoint = encodeURIComponent(server.endpoint);
    const store = openObjectStore({
      url: `s3://objects/some/prefix?region=us-east-1&endpoint=${endpoint}&forcePathStyle=true`,
      publicUrl: 'http://unused.test',
    });
    return {
      store,
      async leftovers() {
        const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: 'objects' }));
        return Uploads.map((upload) => upload.Key ?? '');
      },
      async close() {
        await store.close();
        client.destroy();
        await server.stop();
      },
    };
  },
  START_MS,
);
