# -------------------------------------------------------------------------
# Copyright (c) Microsoft Corporation. All rights reserved.
# Licensed under the MIT License.
# --------------------------------------------------------------------------
"""The names of graph optimizers that ``optimization.disable_specified_optimizers`` acts on."""

# The names that optimization.disable_specified_optimizers acts on (the pass leaves the log, or its nodes stay in the
# graph), by the release that added them. It does not act on MemcpyTransformer, CastFloat16Transformer,
# RemoveDuplicateCastTransformer and EnsureUniqueDQForNodeUnit.
_OPTIMIZERS_SINCE = {
    (1, 24): """
        AttentionFusion BiasDropoutFusion BiasGeluFusion BiasSoftmaxFusion CastChainElimination CastElimination
        ClipQuantRewrite CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
        ConvAddActivationFusion ConvAddFusion ConvBNFusion ConvMulFusion DivMulFusion DoubleQDQPairsRemover
        DynamicQuantizeMatMulFusion EliminateDropout EliminateIdentity EliminateSlice EmbedLayerNormFusion
        ExpandElimination FastGeluFusion FreeDimensionOverrideTransformer FuseFp16InitializerToFp32NodeTransformer
        FuseReluClip GatherSliceToSplitFusion GatherToSliceFusion GeluApproximation GeluFusionL1 GeluFusionL2
        GemmActivationFusion GemmSumFusion GemmTransposeFusion GroupQueryAttentionFusion LayerNormFusionL1
        LayerNormFusionL2 Level1_RuleBasedTransformer Level2_RuleBasedTransformer MatMulActivationFusion MatMulAddFusion
        MatMulIntegerToFloatFusion MatMulNBitsFusion MatMulScaleFusion MatMul_BatchNormalization_Fusion
        MatmulTransposeFusion NchwcTransformer NhwcTransformer NoopElimination Pad_Fusion PreShapeNodeElimination
        QDQFinalCleanupTransformer QDQPropagationTransformer QDQS8ToU8Transformer QDQSelectorActionTransformer
        QuickGeluFusion ReluQuantRewrite ReshapeFusion SimplifiedLayerNormFusion SkipLayerNormFusion TransposeOptimizer
        TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization WhereDummyDq
    """,
    (1, 25): """
        Avx2WeightS8ToU8Transformer BiasSkipLayerNormFusion DQMatMulNBitsFusion NotWhereFusion
        SliceConcatToSpaceToDepthFusion
    """,
    (1, 28): "GroupQueryAttentionPreNormFusion",
    (1, 32): "SwiGluFusion",
}
OPTIMIZERS = {name: since for since, names in _OPTIMIZERS_SINCE.items() for name in names.split()}
LISTED = ". ".join(
    "ORT {}.{} and later: {}".format(*since, ", ".join(names.split())) for since, names in _OPTIMIZERS_SINCE.items()
)
