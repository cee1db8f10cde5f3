import { Server, ServerCredentials } from '@grpc/grpc-js';
import { type LiveServiceServer, LiveServiceService } from '@semblance/proto/semblance/live/v1/live';
import { type LiveRig, SETTINGS, startLiveRig } from '@semblance/testkit/live/live-rig';

/** Process with the live part of an agent, and beside it a bare relay that only sends back what comes. */

export interface ChildReady {
  readonly address: string;
  readonly incarnation: string;
  readonly echoAddress: string;
}

/** Answer to a message: CPU time that this process has used, in ms. */
export type ChildAnswer = ChildReady | { readonly cpuMs: number };

const rig: LiveRig = await startLiveRig({ settings: { ...SETTINGS, voiceSlots: 96, videoSlots: 0 } });
await rig.warm();

const echo = new Server();
echo.addService(LiveServiceService, {
  relay(call) {
    call.on('data', ({ request }) => {
      if (request?.$case === 'open') {
        const value = { firstFrame: '', maxMessageBytes: 0, changeable: [] };
        call.write({ response: { $case: 'ready', value } });
      } else if (request?.$case === 'media') call.write({ response: request });
      else call.end();
    });
    call.on('end', () => call.end());
  },
} as Partial<LiveServiceServer> as never);
const port = await new Promise<number>((resolve, reject) => {
  echo.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
    error ? reject(error) : resolve(bound),
  );
});

const tell = (answer: ChildAnswer) => process.send?.(answer);
tell({ address: rig.address, incarnation: rig.incarnation, echoAddress: `127.0.0.1:${port}` });
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  tell({ cpuMs: (user + system) / 1000 });
});
process.on('disconnect', () => process.exit(0));
